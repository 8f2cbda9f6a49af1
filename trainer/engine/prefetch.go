package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/torch/cuda"
)

// Options.Prefetch: while the device computes a batch, the next one is sent to it in a separate
// stream, like the data_prefetcher of NVIDIA's examples for PyTorch. The computing stream waits for
// an event after the copies, and record_stream keeps their memory from being reused before the
// computing stream is done with it. The batches, their order and the bits do not change.

// sideStream is the stream in which batches are sent, beside the one that computes.
type sideStream interface {
	run(send func())           // queues what send copies
	mark() (wait, free func()) // marks the end of what is queued: wait makes the computing stream wait for it
	uses(torch.Tensor)         // the computing stream uses a tensor that was made in this one
}

// newSideStream is a variable for the tests, which must do without a GPU.
var newSideStream = func(d torch.Device) sideStream { return cudaStream{cuda.NewStream(d)} }

type cudaStream struct{ cuda.Stream }

func (s cudaStream) run(send func())     { s.Run(send) }
func (s cudaStream) uses(t torch.Tensor) { cuda.CurrentStream(s.Device()).Record(t) }

func (s cudaStream) mark() (wait, free func()) {
	e := cuda.NewEvent(cuda.EventOptions{})
	e.Record(s.Stream)
	return func() { cuda.CurrentStream(s.Device()).WaitEvent(e) }, e.Free
}

type prefetcher struct {
	device torch.Device
	side   sideStream
	sent   *arrivals
	loads  bool // batches come from a loader of the engine
}

// send queues the copies of a batch's slices. If there is not enough memory for one more batch, the
// batch is not sent ahead, and Input sends it when it is needed.
func (p *prefetcher) send(batch any) (*arrival, error) {
	a := &arrival{slices: slicesOf(batch)}
	if len(a.slices) == 0 {
		return nil, fmt.Errorf("engine: Options.Prefetch is set, but a %T holds no slice of numbers in its fields, so "+
			"there is nothing to send ahead", batch)
	}
	var copies []torch.Tensor // one-dimensional
	wait, free := func() {}, func() {}
	a.tensor = func(k int) torch.Tensor {
		if !a.used {
			wait()
		}
		p.side.uses(copies[k])
		return copies[k]
	}
	a.free = func() {
		freeAll(copies)
		free()
	}
	err := torch.Try(func() {
		p.side.run(func() {
			torch.Scope(func() {
				for _, s := range a.slices {
					copies = append(copies, send(s.pinned(), p.device).Keep())
				}
			})
		})
		wait, free = p.side.mark()
	})
	if err == nil {
		*p.sent = append(*p.sent, a)
		return a, nil
	}
	a.free()
	if errors.Is(err, torch.ErrOutOfMemory) {
		return nil, nil
	}
	return nil, fmt.Errorf("engine: send a batch ahead: %w", err)
}

// sendAhead runs one batch ahead of its consumer: it yields a batch when the next one has been
// sent. An error is yielded where it would be without that, after all earlier batches.
func sendAhead(p *prefetcher, batches pass[any]) pass[any] {
	return func(ctx context.Context, epoch, skip int) iter.Seq2[any, error] {
		return func(yield func(any, error) bool) {
			p.loads = true
			var sent arrivals // of this epoch
			defer func() { p.sent.forget(func(a *arrival) bool { return slices.Contains(sent, a) }) }()
			var waiting any
			var some bool
			for batch, err := range batches(ctx, epoch, skip) {
				if err == nil {
					var a *arrival
					if a, err = p.send(batch); a != nil {
						sent = append(sent, a)
					}
				}
				if some && !yield(waiting, nil) {
					return
				}
				if some = err == nil; !some {
					yield(batch, err)
					return
				}
				waiting = batch
			}
			if some {
				yield(waiting, nil)
			}
		}
	}
}
