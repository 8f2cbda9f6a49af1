package engine

import (
	"fmt"

	"github.com/gotrainer/gotrainer/nn"
)

// GradientCheckpointer is a model or a layer that can recompute its forward pass in the backward
// pass instead of keeping its intermediate results: gradient_checkpointing_enable of transformers.
// torch.Checkpoint does the work. It restores the random numbers, so dropout is the same.
type GradientCheckpointer interface {
	SetGradientCheckpointing(on bool)
}

func enableGradientCheckpointing(model any) error {
	found := false
	for _, m := range nn.Modules(model) {
		if c, ok := m.Module.(GradientCheckpointer); ok {
			c.SetGradientCheckpointing(true)
			found = true
		}
	}
	if !found {
		return fmt.Errorf("engine: Options.GradientCheckpointing is set, but neither the model %T nor a layer in it "+
			"has a method SetGradientCheckpointing(on bool) (engine.GradientCheckpointer)", model)
	}
	return nil
}
