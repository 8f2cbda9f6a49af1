package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"unsafe"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/torch/cuda"
)

// Options.Prefetch: while the device computes a batch, the numbers of the next one are sent to it in
// a stream of their own. It is the data_prefetcher of NVIDIA's examples for PyTorch: the stream that
// computes waits for an event behind the copies, and record_stream keeps their memory from being
// used again before that stream is done with it. The batches, their order and the bits are the same.

// sideStream is where batches are sent, beside the stream that computes.
type sideStream interface {
	run(send func())   // queues what send copies
	mark() sideEvent   // after all that is queued
	uses(torch.Tensor) // the stream that computes uses a tensor that was made in this one
}

// sideEvent is a place in a sideStream.
type sideEvent interface {
	wait() // the stream that computes does
	free()
}

// newSideStream is a variable for the tests, which must do without a GPU.
var newSideStream = func(d torch.Device) sideStream { return cudaStream{cuda.NewStream(d)} }

type cudaStream struct{ cuda.Stream }

func (s cudaStream) run(send func())     { s.Run(send) }
func (s cudaStream) uses(t torch.Tensor) { cuda.CurrentStream(s.Device()).Record(t) }

func (s cudaStream) mark() sideEvent {
	e := cuda.NewEvent(cuda.EventOptions{})
	e.Record(s.Stream)
	return cudaEvent{e, s.Device()}
}

type cudaEvent struct {
	*cuda.Event
	device torch.Device
}

func (e cudaEvent) wait() { cuda.CurrentStream(e.device).WaitEvent(e.Event) }
func (e cudaEvent) free() { e.Free() }

// prefetcher knows the batches that have been sent and not been used up yet. A nil one knows none.
type prefetcher struct {
	device  torch.Device
	side    sideStream
	cargoes []*cargo
	loads   bool // a loader of the engine's is used
	warned  bool
}

// cargo are the numbers of a batch on the device.
type cargo struct {
	items []item
	event sideEvent
	taken bool
}

// item is a slice of a batch, and its copy.
type item struct {
	slice
	tensor torch.Tensor // of one dimension
}

func newPrefetcher(o Options) *prefetcher {
	if !o.Prefetch {
		return nil
	}
	return &prefetcher{device: o.Device, side: newSideStream(o.Device)}
}

// send queues the copies of a batch's slices. Where memory does not suffice for one batch more than
// the one that computes, the batch stays: Input sends it when its turn comes.
func (p *prefetcher) send(batch any) (*cargo, error) {
	found := numbers(reflect.ValueOf(batch), nil, maxDepth)
	if len(found) == 0 {
		return nil, fmt.Errorf("engine: Options.Prefetch is set, but a %T holds no slice of numbers in its fields, so "+
			"there is nothing to send ahead", batch)
	}
	c := &cargo{}
	err := torch.Try(func() {
		p.side.run(func() {
			torch.Scope(func() {
				for _, s := range found {
					c.items = append(c.items, item{s, send(s.pinned(), p.device).Keep()})
				}
			})
		})
		c.event = p.side.mark()
	})
	if err == nil {
		p.cargoes = append(p.cargoes, c)
		return c, nil
	}
	c.drop()
	if errors.Is(err, torch.ErrOutOfMemory) {
		return nil, nil
	}
	return nil, fmt.Errorf("engine: send a batch ahead: %w", err)
}

// take is the copy of a slice, if it was sent, for the stream that computes.
func (p *prefetcher) take(s slice) (t torch.Tensor, ok bool) {
	if p == nil {
		return t, false
	}
	for _, c := range slices.Backward(p.cargoes) { // a slice may be used again for a later batch
		for _, i := range c.items {
			if i.slice == s {
				if !c.taken {
					c.event.wait()
					c.taken = true
				}
				p.side.uses(i.tensor)
				return i.tensor, true
			}
		}
	}
	return t, false
}

// next is called before a pass: what the ones before have taken is used up.
func (p *prefetcher) next(warn func(format string, args ...any)) {
	if p == nil {
		return
	}
	p.forget(func(c *cargo) bool { return c.taken })
	if !p.loads && !p.warned {
		p.warned = true
		warn("Options.Prefetch is set, but the batches of this run do not come from a loader over a data set (a stream of " +
			"data does not), so none is sent ahead")
	}
}

// forget drops some of the cargoes.
func (p *prefetcher) forget(which func(*cargo) bool) {
	rest := p.cargoes[:0]
	for _, c := range p.cargoes {
		if which(c) {
			c.drop()
		} else {
			rest = append(rest, c)
		}
	}
	clear(p.cargoes[len(rest):])
	p.cargoes = rest
}

func (c *cargo) drop() {
	for _, i := range c.items {
		i.tensor.Free()
	}
	if c.event != nil {
		c.event.free()
	}
}

// slice is one of numbers that a batch holds.
type slice struct {
	at      unsafe.Pointer
	n       int
	element reflect.Type
}

// pinned copies it into page-locked memory.
func (s slice) pinned() torch.Tensor {
	switch s.element.Kind() {
	case reflect.Float32:
		return torch.FromPinned(unsafe.Slice((*float32)(s.at), s.n))
	case reflect.Float64:
		return torch.FromPinned(unsafe.Slice((*float64)(s.at), s.n))
	case reflect.Int32:
		return torch.FromPinned(unsafe.Slice((*int32)(s.at), s.n))
	case reflect.Int64:
		return torch.FromPinned(unsafe.Slice((*int64)(s.at), s.n))
	case reflect.Uint8:
		return torch.FromPinned(unsafe.Slice((*uint8)(s.at), s.n))
	default:
		return torch.FromPinned(unsafe.Slice((*bool)(s.at), s.n))
	}
}

// dtypes are those of the types of numbers that are sent ahead.
var dtypes = map[reflect.Type]torch.DType{
	reflect.TypeFor[float32](): torch.Float32, reflect.TypeFor[float64](): torch.Float64,
	reflect.TypeFor[int32](): torch.Int32, reflect.TypeFor[int64](): torch.Int64,
	reflect.TypeFor[uint8](): torch.Uint8, reflect.TypeFor[bool](): torch.Bool,
}

// maxDepth is how deep in structs and pointers slices are looked for.
const maxDepth = 8

// numbers are the slices of numbers in the fields of a batch.
func numbers(v reflect.Value, all []slice, depth int) []slice {
	switch {
	case depth == 0:
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			all = numbers(v.Field(i), all, depth-1)
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		all = numbers(v.Elem(), all, depth-1)
	case v.Kind() == reflect.Slice && v.Len() > 0:
		if _, sendable := dtypes[v.Type().Elem()]; sendable {
			all = append(all, slice{v.UnsafePointer(), v.Len(), v.Type().Elem()})
		}
	}
	return all
}

// prefetchLoader is one batch ahead of those who ask it.
type prefetchLoader[S, B any] struct {
	*data.Loader[S, B]
	early *prefetcher
}

// Epoch gives a batch when the next one has been sent. Errors come where they would come without
// that, after all batches before them.
func (l prefetchLoader[S, B]) Epoch(ctx context.Context, epoch, skip int) iter.Seq2[B, error] {
	return func(yield func(B, error) bool) {
		l.early.loads = true
		var sent []*cargo // of this epoch
		defer func() { l.early.forget(func(c *cargo) bool { return slices.Contains(sent, c) }) }()
		var waiting B
		var some bool
		for batch, err := range l.Loader.Epoch(ctx, epoch, skip) {
			if err == nil {
				var c *cargo
				if c, err = l.early.send(batch); c != nil {
					sent = append(sent, c)
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
