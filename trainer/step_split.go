package trainer

import (
	"context"
	"fmt"
	"slices"
)

// SplitStep is a [Step] that can stop between the forward and the backward pass of a micro-batch.
// Forward and Backward together do what Train does. The loop calls them instead of Train if a hook
// runs between them (AfterForward) or if the loss of every micro-batch must be known. A type that
// overrides Train of such a step must also override Forward or Backward.
type SplitStep[B any] interface {
	// Forward runs the forward pass of one micro-batch.
	Forward(ctx context.Context, batch B, w Window) error
	// Backward adds the gradient of the loss of the last Forward. If a Forward was not followed by
	// Backward, the next Forward discards it.
	Backward(ctx context.Context) error
	// BatchLoss returns the loss of the last Forward or Eval. It may wait for the device.
	BatchLoss() (BatchLoss, error)
}

// checkSplit refuses hooks and reports that need a SplitStep if the step is none.
func (t *core) checkSplit() error {
	if t.step.split != nil {
		return nil
	}
	o := &t.options
	i := slices.IndexFunc(o.Callbacks, has[afterForwardHook])
	switch {
	case i >= 0:
		return fmt.Errorf("trainer: the hook %T has AfterForward, but %T is not a trainer.SplitStep: %s",
			o.Callbacks[i], t.step.given, passOn("Forward, Backward and BatchLoss"))
	case (&losses{report: o.Semantics.LossReport}).wanted():
		return fmt.Errorf("trainer: Options.Semantics (%s) report a loss computed from those of all micro-batches, "+
			"but %T is not a trainer.SplitStep: %s; or set LossReport to semantics.SinceLog", o.Semantics.Name, t.step.given,
			passOn("Forward, Backward and BatchLoss"))
	}
	return nil
}

// passOn returns the remedy for a step that does not implement an optional interface.
func passOn(methods string) string {
	return "implement " + methods + " for its batches; a type that embeds the interface trainer.Step must pass them " +
		"on, or embed the type of the step itself"
}
