package trainer

import (
	"context"
	"fmt"
	"slices"
)

// SplitStep is a [Step] that can stop between the forward and the backward pass of a micro-batch.
// Forward and Backward together do what Train does; the loop calls them in its place where a hook
// wants to come between them (AfterForward) or the loss of every micro-batch must be known. What
// overrides Train of such a step overrides Forward or Backward too.
type SplitStep[B any] interface {
	// Forward runs the forward pass of one micro-batch.
	Forward(ctx context.Context, batch B, w Window) error
	// Backward adds the gradient of the loss of the last Forward. After a Forward without Backward
	// the next Forward forgets it.
	Backward(ctx context.Context) error
	// BatchLoss is the loss of the last Forward or Eval. It may wait for the device.
	BatchLoss() (BatchLoss, error)
}

// checkSplit refuses hooks and reports for which the step would have to stop between forward and
// backward, if it cannot.
func (t *Trainer[S, B]) checkSplit() error {
	if has[SplitStep[B]](t.step) {
		return nil
	}
	o := &t.options
	i := slices.IndexFunc(o.Callbacks, has[afterForwardHook])
	switch {
	case i >= 0:
		return fmt.Errorf("trainer: the hook %T has AfterForward, but %T is not a trainer.SplitStep: %s",
			o.Callbacks[i], t.step, passOn("Forward, Backward and BatchLoss"))
	case (&losses{report: o.Semantics.LossReport}).wanted():
		return fmt.Errorf("trainer: Options.Semantics (%s) report a loss computed from those of all micro-batches, "+
			"but %T is not a trainer.SplitStep: %s; or set LossReport to semantics.SinceLog", o.Semantics.Name, t.step,
			passOn("Forward, Backward and BatchLoss"))
	}
	return nil
}

// passOn is the remedy for a step that is not what an optional interface asks for.
func passOn(methods string) string {
	return "implement " + methods + " for its batches; a type that embeds the interface trainer.Step must pass them " +
		"on, or embed the type of the step itself"
}
