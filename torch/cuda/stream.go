package cuda

import (
	"fmt"
	"runtime"
	"time"

	"github.com/gotrainer/gotrainer/cgotorch"
	"github.com/gotrainer/gotrainer/torch"
)

// Stream is a queue of work on a GPU: torch.cuda.Stream. What is queued in one is done in order;
// two of them know nothing of each other but by [Event]s and [Stream.WaitStream]. It belongs to
// libtorch's pool of 32 for each GPU and priority, which hands them out in turn, and needs no end.
type Stream struct{ c cgotorch.Stream }

// NewStream takes one from the pool. It panics if d is no GPU that can be used.
func NewStream(d torch.Device) Stream { return newStream(d, false) }

// NewHighPriorityStream takes one whose work comes before that of the others.
func NewHighPriorityStream(d torch.Device) Stream { return newStream(d, true) }

func newStream(d torch.Device, highPriority bool) (s Stream) {
	need("NewStream", d)
	check("NewStream", cgotorch.CUDANewStream(d.Index(), highPriority, &s.c))
	return s
}

// CurrentStream is the one that the calling thread's operators on d go to.
func CurrentStream(d torch.Device) (s Stream) {
	need("CurrentStream", d)
	check("CurrentStream", cgotorch.CUDACurrentStream(d.Index(), &s.c))
	return s
}

// Device is the GPU that it belongs to.
func (s Stream) Device() torch.Device { return torch.CUDA(int(s.c.Device)) }

// String names the stream: "stream 4 of cuda:0". That of number 0 is the default one.
func (s Stream) String() string { return fmt.Sprintf("stream %d of %v", s.c.ID, s.Device()) }

// Run runs f with s as the current stream of its GPU: torch.cuda.stream. Tensors that f reads and
// another stream has made must be ready: s.WaitStream(other) before. Tensors that f makes and
// another stream reads are handed over by that stream's WaitStream and by [Stream.Record].
func (s Stream) Run(f func()) {
	s.need("Stream.Run")
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var former, ignored cgotorch.Stream
	check("Stream.Run", cgotorch.CUDASwapStream(&s.c, &former))
	defer func() {
		if !torch.DeviceFailed() {
			check("Stream.Run", cgotorch.CUDASwapStream(&former, &ignored))
		}
	}()
	f()
}

// WaitStream has what is queued in s from now on wait for what other holds now. The host does not
// wait.
func (s Stream) WaitStream(other Stream) {
	e := NewEvent(EventOptions{})
	defer e.Free()
	e.Record(other)
	s.WaitEvent(e)
}

// WaitEvent has what is queued in s from now on wait for e. The host does not wait.
func (s Stream) WaitEvent(e *Event) {
	s.need("Stream.WaitEvent")
	check("Stream.WaitEvent", cgotorch.CUDAWaitEvent(e.pointer("Stream.WaitEvent"), &s.c))
	runtime.KeepAlive(e)
}

// Record keeps the memory of t, which another stream has made, from being used again before s has
// done what it holds when t is freed: Tensor.record_stream.
func (s Stream) Record(t torch.Tensor) {
	s.need("Stream.Record")
	check("Stream.Record", cgotorch.CUDARecordStream(torch.Handle("cuda.Stream.Record", t), &s.c))
	runtime.KeepAlive(t)
}

// Ready tells whether s has done all that it holds. It does not wait.
func (s Stream) Ready() bool {
	s.need("Stream.Ready")
	var ready int32
	check("Stream.Ready", cgotorch.CUDAStreamReady(&s.c, &ready))
	return ready != 0
}

// Synchronize waits until s has done all that it holds.
func (s Stream) Synchronize() {
	s.need("Stream.Synchronize")
	check("Stream.Synchronize", cgotorch.CUDASynchronizeStream(&s.c))
}

// need panics for the zero Stream, which is no GPU's, and where there is no GPU.
func (s Stream) need(op string) {
	if s.c.Type == 0 {
		panic(torch.Errorf("cuda."+op, torch.ErrUndefined, "the stream is the zero value; want one of NewStream"))
	}
	need(op, s.Device())
}

// EventOptions are those of an [Event].
type EventOptions struct {
	Timing bool // the event takes the time, for [Event.Since]; without it is cheaper
}

// Event is a place in a stream, which others can wait for: torch.cuda.Event. One goroutine at a
// time uses it.
type Event struct {
	c       cgotorch.Event
	timing  bool
	stream  bool // it was recorded
	cleanup runtime.Cleanup
}

// NewEvent makes an event that is nowhere yet. The garbage collector frees it, or [Event.Free]. It
// panics where there is no GPU.
func NewEvent(o EventOptions) *Event {
	need("NewEvent", torch.CUDA(0))
	e := &Event{timing: o.Timing}
	check("NewEvent", cgotorch.CUDANewEvent(o.Timing, &e.c))
	e.cleanup = runtime.AddCleanup(e, cgotorch.CUDAFreeEventAt, uintptr(e.c))
	return e
}

// Free frees the event now.
func (e *Event) Free() {
	if e.c != nil {
		e.cleanup.Stop()
		cgotorch.CUDAFreeEvent(e.c)
		e.c = nil
	}
}

// Record puts the event behind what s holds now.
func (e *Event) Record(s Stream) {
	s.need("Event.Record")
	check("Event.Record", cgotorch.CUDARecordEvent(e.pointer("Event.Record"), &s.c))
	runtime.KeepAlive(e)
	e.stream = true
}

// Ready tells whether its stream has come to it; so it has if it was never recorded.
func (e *Event) Ready() bool {
	var ready int32
	check("Event.Ready", cgotorch.CUDAEventReady(e.pointer("Event.Ready"), &ready))
	runtime.KeepAlive(e)
	return ready != 0
}

// Synchronize waits until its stream has come to it.
func (e *Event) Synchronize() {
	check("Event.Synchronize", cgotorch.CUDASynchronizeEvent(e.pointer("Event.Synchronize")))
	runtime.KeepAlive(e)
}

// Since is the time that the GPU took from one event to this one, once it has come to both:
// Event.elapsed_time. It panics if it has not, or if one of them was made without Timing.
func (e *Event) Since(from *Event) time.Duration {
	const op = "Event.Since"
	if !e.timing || !from.timing || !e.stream || !from.stream {
		panic(torch.Errorf("cuda."+op, torch.ErrInvalid, "both events must have been made with EventOptions.Timing and "+
			"been recorded"))
	}
	var ms float64
	check(op, cgotorch.CUDAElapsed(from.pointer(op), e.pointer(op), &ms))
	runtime.KeepAlive([2]*Event{from, e})
	return time.Duration(ms * float64(time.Millisecond))
}

func (e *Event) pointer(op string) cgotorch.Event {
	if e.c == nil {
		panic(torch.Errorf("cuda."+op, torch.ErrFreed, "the event was freed"))
	}
	return e.c
}
