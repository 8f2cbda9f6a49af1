package cuda

import (
	"fmt"
	"runtime"
	"time"

	"github.com/gotrainer/gotrainer/cgotorch"
	"github.com/gotrainer/gotrainer/torch"
)

// Stream is a queue of work on a GPU: torch.cuda.Stream. Work queued on one stream is done in
// order. Two streams are synchronized only by [Event]s and [Stream.WaitStream]. A stream belongs
// to libtorch's pool of 32 for each GPU and priority, which hands them out in turn, and does not
// have to be freed.
type Stream struct{ c cgotorch.Stream }

// NewStream takes a stream from the pool. It panics if d is not a usable GPU.
func NewStream(d torch.Device) Stream { return newStream(d, false) }

// NewHighPriorityStream takes a stream whose work comes before that of ordinary ones.
func NewHighPriorityStream(d torch.Device) Stream { return newStream(d, true) }

func newStream(d torch.Device, highPriority bool) (s Stream) {
	need("NewStream", d)
	check("NewStream", cgotorch.CUDANewStream(d.Index(), highPriority, &s.c))
	return s
}

// CurrentStream returns the stream that the calling thread's operators on d are queued on.
func CurrentStream(d torch.Device) (s Stream) {
	need("CurrentStream", d)
	check("CurrentStream", cgotorch.CUDACurrentStream(d.Index(), &s.c))
	return s
}

// Device returns the GPU of the stream.
func (s Stream) Device() torch.Device { return torch.CUDA(int(s.c.Device)) }

// String names the stream: "stream 4 of cuda:0". Stream 0 is the default one.
func (s Stream) String() string { return fmt.Sprintf("stream %d of %v", s.c.ID, s.Device()) }

// Run runs f with s as the current stream of its GPU: torch.cuda.stream. Before f reads tensors
// made on another stream, call s.WaitStream(other). Before another stream reads tensors made by f,
// call WaitStream on that stream, and [Stream.Record].
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

// WaitStream makes work queued on s from now on wait for the work that other holds now. The host
// does not wait.
func (s Stream) WaitStream(other Stream) {
	e := NewEvent(EventOptions{})
	defer e.Free()
	e.Record(other)
	s.WaitEvent(e)
}

// WaitEvent makes work queued on s from now on wait for e. The host does not wait.
func (s Stream) WaitEvent(e *Event) {
	s.need("Stream.WaitEvent")
	check("Stream.WaitEvent", cgotorch.CUDAWaitEvent(e.pointer("Stream.WaitEvent"), &s.c))
	runtime.KeepAlive(e)
}

// Record marks t, made on another stream, as used by s: Tensor.record_stream. After t is freed,
// its memory is not reused before s has finished the work it holds at that time.
func (s Stream) Record(t torch.Tensor) {
	s.need("Stream.Record")
	check("Stream.Record", cgotorch.CUDARecordStream(torch.Handle("cuda.Stream.Record", t), &s.c))
	runtime.KeepAlive(t)
}

// Ready reports whether s has finished all its work. It does not wait.
func (s Stream) Ready() bool {
	s.need("Stream.Ready")
	var ready int32
	check("Stream.Ready", cgotorch.CUDAStreamReady(&s.c, &ready))
	return ready != 0
}

// Synchronize waits until s has finished all its work.
func (s Stream) Synchronize() {
	s.need("Stream.Synchronize")
	check("Stream.Synchronize", cgotorch.CUDASynchronizeStream(&s.c))
}

// need panics if s is the zero Stream, which belongs to no GPU, or if its GPU cannot be used.
func (s Stream) need(op string) {
	if s.c.Type == 0 {
		panic(torch.Errorf("cuda."+op, torch.ErrUndefined, "the stream is the zero value; want one of NewStream"))
	}
	need(op, s.Device())
}

// EventOptions are the options of an [Event].
type EventOptions struct {
	Timing bool // record the time, for [Event.Since]; without it an event is cheaper
}

// Event is a point in a stream that others can wait for: torch.cuda.Event. Only one goroutine at a
// time may use it.
type Event struct {
	c       cgotorch.Event
	timing  bool
	stream  bool // Record was called
	cleanup runtime.Cleanup
}

// NewEvent makes an event that has not been recorded yet. It is freed by the garbage collector or
// by [Event.Free]. It panics if there is no GPU.
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

// Record places the event after the work that s holds now.
func (e *Event) Record(s Stream) {
	s.need("Event.Record")
	check("Event.Record", cgotorch.CUDARecordEvent(e.pointer("Event.Record"), &s.c))
	runtime.KeepAlive(e)
	e.stream = true
}

// Ready reports whether the stream has reached the event. An event that was never recorded is
// ready.
func (e *Event) Ready() bool {
	var ready int32
	check("Event.Ready", cgotorch.CUDAEventReady(e.pointer("Event.Ready"), &ready))
	runtime.KeepAlive(e)
	return ready != 0
}

// Synchronize waits until the stream has reached the event.
func (e *Event) Synchronize() {
	check("Event.Synchronize", cgotorch.CUDASynchronizeEvent(e.pointer("Event.Synchronize")))
	runtime.KeepAlive(e)
}

// Since returns the time that the GPU took from one event to this one: Event.elapsed_time. It
// panics if the GPU has not reached both, or if one of them was made without Timing.
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
