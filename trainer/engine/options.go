package engine

import (
	"fmt"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// Options configures [New]. The zero value trains on the CPU in float32 with Hugging Face's defaults.
type Options struct {
	// Optimizer is optim.AdamW{...}, optim.SGD{...} and so on. Nil: optim.AdamW without weight decay at rate 5e-5, Hugging Face's default.
	Optimizer optim.Builder

	// Groups divides the parameters into groups with settings of their own. Nil: Hugging Face's two groups, of which the second, biases
	// and the weights of normalisation layers, has no weight decay.
	Groups func(model any, params []torch.Named) []optim.Group

	MaxGradNorm  float64 // the gradients' total norm is limited to it; zero: 1, as Hugging Face; +Inf: only reported; negative: neither
	MaxGradValue float64 // every element of the gradients is limited to ±MaxGradValue, after the norm; zero: not

	Device    torch.Device  // where the model is trained; zero: the CPU
	Precision amp.Precision // amp.BF16: forward under autocast; weights and optimizer stay float32

	// InitWeightsFrom is a safetensors file, or a folder with model.safetensors, whose weights the model starts with. Every
	// parameter must be there in its shape, and none else.
	InitWeightsFrom string
}

func (o Options) validate() error {
	if o.MaxGradValue < 0 {
		return fmt.Errorf("engine: Options.MaxGradValue is %g; want a positive limit, or 0 for none", o.MaxGradValue)
	}
	if o.Device.IsCUDA() {
		if err := torch.Load(); err != nil {
			return err
		}
		if n := torch.CUDADevices(); o.Device.Index() >= n {
			return fmt.Errorf("engine: Options.Device is %s, but libtorch sees %d GPUs; the CUDA build of libtorch is installed by scripts/install_libtorch.sh --cuda", o.Device, n)
		}
	}
	if o.Precision == amp.FP16 && !o.Device.IsCUDA() {
		return fmt.Errorf("engine: Options.Precision is fp16, which the CPU cannot train in; use bf16 or fp32")
	}
	return nil
}
