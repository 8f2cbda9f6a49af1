package trainer

import "github.com/gotrainer/gotrainer/data"

// Recycler is a [Step] that makes batches in the memory of batches already trained on, so that an
// update allocates no more for a large batch than for a small one. About().Recycles reports whether
// it does.
//
// After a window of training, the goroutine of the loop calls Recycle for each batch of the window
// that Collate made, unless a hook has requested the batch ([Run].Batch). Nothing uses the batch
// any more, and Collate, which runs concurrently, may reuse its memory from then on. Such a Collate
// must not keep its slice of samples, which is also reused.
//
// A type that embeds a Recycler and keeps what Collate has made, or returns it twice, must override
// Recycle with a method that does nothing.
type Recycler[B any] interface {
	Recycle(batch B)
}

// recycling sets up recycling for a loader of the trainer's own, if the step recycles batches, and
// returns the loader's options.
func (r *runner) recycling(o data.LoaderOptions) data.LoaderOptions {
	if r.step.About().Recycles {
		r.recycler, o.ReuseSamples = r.step.recycler, r.step.recycler != nil
	}
	return o
}

// recycle gives the batches of a finished window back to the step.
func (r *runner) recycle() {
	if r.recycler == nil || r.batchRequested {
		return
	}
	for _, batch := range r.window {
		r.recycler.Recycle(batch)
	}
}
