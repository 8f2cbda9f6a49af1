package trainer

import "github.com/gotrainer/gotrainer/data"

// Recycler is a [Step] that makes batches in the memory of batches already trained on, so that
// an update allocates as much for a large batch as for a small one. About().Recycles says whether
// it does.
//
// Recycle is called by the goroutine of the loop after a window of the training, for each of its
// batches that Collate has made, unless a hook has asked for one of them ([Run].Batch): nobody uses
// it any more. Collate, which runs beside it, may have its memory from then on. Such a Collate keeps
// nothing of its slice of samples, which is used again as well.
//
// A type that embeds a Recycler and keeps, or hands out twice, what Collate has made overrides
// Recycle with a method that does nothing.
type Recycler[B any] interface {
	Recycle(batch B)
}

// recycling has the batches of a loader of the trainer's own given back to a step that takes them.
func (r *runner[S, B]) recycling(o data.LoaderOptions) data.LoaderOptions {
	if r.step.About().Recycles {
		r.recycler, o.ReuseSamples = r.step.(Recycler[B])
	}
	return o
}

// recycle gives the batches of a window back that has been trained on.
func (r *runner[S, B]) recycle() {
	if r.recycler == nil || r.shown {
		return
	}
	for _, batch := range r.window {
		r.recycler.Recycle(batch)
	}
}
