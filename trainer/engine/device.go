package engine

import (
	"fmt"
	"sync"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/torch/cuda"
)

var (
	idleGPU sync.Once
	gpus    = torch.CUDADevices

	properties = cuda.DeviceProperties
)

// warnOfIdleGPU warns, once per process, if a model is trained on the CPU although libtorch can use
// a GPU of this machine. Python's Trainer would use it.
func (s *core) warnOfIdleGPU() {
	if n := gpus(); n > 0 && !s.options.Device.IsCUDA() {
		idleGPU.Do(func() {
			s.warn("the model is trained on the CPU, and libtorch sees %d GPUs; to use one, set Options.Device to "+
				"torch.ParseDevice(%q)", n, "auto")
		})
	}
}

// checkCapability refuses TF32 if the GPU does not have it.
func (o *Options) checkCapability() error {
	if o.TF32 != TF32On {
		return nil
	}
	p, err := properties(o.Device)
	if err != nil {
		return fmt.Errorf("engine: Options.TF32 is TF32On: %w", err)
	}
	if !p.Capability.TF32() {
		return fmt.Errorf("engine: Options.TF32 is TF32On, but %v is %s of capability %v; TF32 begins with 8.0 (Ampere)",
			o.Device, p.Name, p.Capability)
	}
	return nil
}

// slowBF16 returns a warning if the device emulates bfloat16, which PyTorch allows; empty: none.
func (o *Options) slowBF16() string {
	if o.Precision != amp.BF16 && o.FullEval != amp.BF16 {
		return ""
	}
	if !o.Device.IsCUDA() {
		if reason := torch.SlowBFloat16(); reason != "" {
			return "Options.Precision or FullEval is amp.BF16: " + reason
		}
		return ""
	}
	p, err := properties(o.Device)
	if err != nil || p.Capability.BF16() {
		return ""
	}
	return fmt.Sprintf("%v is %s of capability %v, which imitates bf16 slowly; bf16 begins with 8.0 (Ampere), and "+
		"amp.FP16 is fast there", o.Device, p.Name, p.Capability)
}
