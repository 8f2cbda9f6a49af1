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

// LayerDropper is a model or a layer that leaves out some of its layers in training, at random: the
// layerdrop of transformers. Several processes, which leave out different ones, can train it only if
// their gradients are averaged with FindUnusedParameters, which GradientCheckpointing rules out.
type LayerDropper interface {
	// Layerdrop is the probability with which a layer is left out.
	Layerdrop() float64
}

// validateLayerdrop refuses options under which processes would wait for gradients of layers that
// others have left out.
func (s *core) validateLayerdrop(world int) error {
	if world == 1 || s.distributed().FindUnusedParameters && !s.options.GradientCheckpointing {
		return nil
	}
	for _, m := range nn.Modules(s.task.Model()) {
		if d, ok := m.Module.(LayerDropper); ok && d.Layerdrop() > 0 {
			return fmt.Errorf("engine: %s leaves out layers at random (layerdrop is %g), and a process would wait for their "+
				"gradients: with %d processes want a layerdrop of 0 in config.json, or Options.GradientCheckpointing and "+
				"Distributed left out", m.Name, d.Layerdrop(), world)
		}
	}
	return nil
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
