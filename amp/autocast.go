package amp

import "github.com/gotrainer/gotrainer/torch"

// Autocast runs f so that operators on device choose their precision: torch.autocast(device,
// dtype). It holds for this goroutine only, and what f starts in others is not touched. Weights are
// cast once per outermost Autocast, so the whole forward pass belongs in one; the backward pass
// belongs outside. Regions nest, the innermost counts; FP32 turns an outer one off, as
// torch.autocast does with a dtype that it cannot cast to. If f panics, the region ends all the
// same.
func Autocast(device torch.Device, p Precision, f func()) {
	if p == FP32 {
		Disabled(device, f)
		return
	}
	torch.Autocast(device, p.DType(), true, true, f)
}

// Disabled runs f without autocast on device, inside an [Autocast] too: torch.autocast(device,
// enabled=False). Tensors that come from outside keep their low precision: convert the tensors that
// f is to compute with.
func Disabled(device torch.Device, f func()) {
	torch.Autocast(device, torch.BFloat16, false, true, f)
}
