package amp

import "github.com/gotrainer/gotrainer/torch"

// Autocast runs f so that operators on device choose their precision: torch.autocast(device,
// dtype). It applies to this goroutine only, not to goroutines that f starts. Weights are cast once
// per outermost Autocast, so the whole forward pass should be in one; the backward pass belongs
// outside. Regions may be nested, and the innermost counts. FP32 turns an outer region off, as
// torch.autocast does with a dtype that it cannot cast to. If f panics, the region ends
// nevertheless.
func Autocast(device torch.Device, p Precision, f func()) {
	if p == FP32 {
		Disabled(device, f)
		return
	}
	torch.Autocast(device, p.DType(), true, true, f)
}

// Disabled runs f without autocast on device, even inside an [Autocast]: torch.autocast(device,
// enabled=False). Tensors from outside keep their low precision; convert those that f computes
// with.
func Disabled(device torch.Device, f func()) {
	torch.Autocast(device, torch.BFloat16, false, true, f)
}
