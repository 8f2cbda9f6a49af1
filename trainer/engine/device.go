package engine

import (
	"sync"

	"github.com/gotrainer/gotrainer/torch"
)

var (
	idleGPU sync.Once
	gpus    = torch.CUDADevices
)

// warnOfIdleGPU says once in a process that a model is trained on the CPU of a machine whose GPU
// libtorch can use. Python's Trainer would take it.
func (s *Step[S, B]) warnOfIdleGPU() {
	if s.options.Device.IsCUDA() {
		return
	}
	if n := gpus(); n > 0 {
		idleGPU.Do(func() {
			s.warn("the model is trained on the CPU, and libtorch sees %d GPUs; Options.Device of "+
				"torch.ParseDevice(%q) takes "+
				"one", n, "auto")
		})
	}
}
