package trainer

import "context"

// Optional interfaces of a [Step] that the semantics of some trainers, and hooks inside a training
// step, need. A step that is not asked for them is driven by Train alone.

// Forwarder is implemented by a [Step] that can stop between the forward and the backward pass of a
// micro-batch. Forward and Backward together do what Train does; the loop calls them in its place
// where a hook wants to come between them (AfterForward) or the loss of every micro-batch must be
// known.
type Forwarder[B any] interface {
	// Forward runs the forward pass of one micro-batch.
	Forward(ctx context.Context, batch B, w Window) error
	// Backward adds the gradient of the loss of the last Forward. After a Forward without Backward
	// the next Forward forgets it.
	Backward(ctx context.Context) error
	// BatchLoss is the loss of the last Forward or Eval. It may wait for the device.
	BatchLoss() (BatchLoss, error)
}

// BatchLoss is the loss of one batch.
type BatchLoss struct {
	Loss    float64 // as the model or the loss function returned it
	Divided float64 // as it is handed to backward; in an evaluation the same as Loss
}

// Reseeder is implemented by a [Step] that makes its model when it is seeded, and must not where
// only the random numbers begin anew: see semantics.Rules.SeedEveryPass.
type Reseeder interface {
	Reseed(seed uint64) error
}

// ModeKeeper is implemented by a [Step] whose model can be left in evaluation mode while it is
// trained: while keep is set, Train and Forward do not put it back into training mode. See
// semantics.Rules.StayInEvalMode.
type ModeKeeper interface {
	KeepEvalMode(keep bool)
}
