package engine

import (
	"fmt"
	"sync"
	"testing"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/cgotorch"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/torch/cuda"
	"github.com/gotrainer/gotrainer/trainer"
)

// For tests of what has no door of its own.
var (
	RepeatedMean = repeatedMean
	PadAndConcat = padAndConcat
	DenseParams  = denseParams
)

// PretendGPUs makes the engine believe that libtorch sees so many GPUs; again: it has told nobody
// yet.
func PretendGPUs(t *testing.T, n int, again bool) {
	before := gpus
	gpus = func() int { return n }
	t.Cleanup(func() { gpus = before })
	if again {
		idleGPU = sync.Once{}
	}
}

// PretendCapability is what New would say of options on a GPU of this capability.
func PretendCapability(t *testing.T, o Options, c cuda.Capability) (warning string, err error) {
	before := properties
	properties = func(torch.Device) (cuda.Properties, error) {
		return cuda.Properties{Name: "Test GPU", Capability: c}, nil
	}
	t.Cleanup(func() { properties = before })
	return o.slowBF16(), o.checkCapability()
}

// Apply makes the settings of the whole program, on a machine that need not have the GPU.
func Apply(o Options) { o.apply() }

// EvalLossOf is the loss of an evaluation whose batches had these losses, in float32, and rows.
func EvalLossOf(e trainer.Evaluation, losses []float64, rows []int) float64 {
	return evalLoss(e, losses, rows, torch.Float32)
}

// UseFloat16 has a Step on the CPU train in float16 under a scaler as on a GPU, which New refuses:
// the arithmetic is slow there, the state the same.
func UseFloat16[S, B any](s *Step[S, B], o amp.GradScalerOptions) {
	s.options.Precision, s.scaler = amp.FP16, amp.NewGradScaler(o)
}

// Scaler is that of the Step.
func Scaler[S, B any](s *Step[S, B]) *amp.GradScaler { return s.scaler }

// PretendGraphs has a CPU serve as a GPU for graphs, which are recorded and replayed call by call.
func PretendGraphs(t *testing.T) {
	before := hasGraphs
	hasGraphs = func(torch.Device) bool { return true }
	cgotorch.PretendGraphs(true)
	t.Cleanup(func() {
		hasGraphs = before
		cgotorch.PretendGraphs(false)
	})
}

// Replayed is how many micro-batches of a Step a graph has computed.
func Replayed[S, B any](s *Step[S, B]) int {
	if s.graphs == nil {
		return 0
	}
	return s.graphs.replayed
}

// PretendRemote has Steps on the CPU behave as on a GPU wherever that is about waiting. sent tells
// how many tensors have been sent to the device.
func PretendRemote(t *testing.T) (sent func() int) {
	remote, before, n := isRemote, send, 0
	isRemote = func(torch.Device) bool { return true }
	send = func(t torch.Tensor, d torch.Device) torch.Tensor { n++; return before(t, d) }
	t.Cleanup(func() { isRemote, send = remote, before })
	return func() int { return n }
}

// PretendSideStream has Steps send batches ahead without a GPU. What is asked of the side stream is
// noted; an event has the number of its batch.
func PretendSideStream(t *testing.T) *[]string {
	before := newSideStream
	t.Cleanup(func() { newSideStream = before })
	var calls []string
	newSideStream = func(torch.Device) sideStream { return &fakeStream{calls: &calls} }
	return &calls
}

// FailSideStream puts a function in the place of sending; nil: nothing.
func FailSideStream(_ *testing.T, f func(send func())) { sending = f }

var sending func(send func())

type fakeStream struct {
	calls *[]string
	marks int
}

func (s *fakeStream) note(format string, args ...any) {
	*s.calls = append(*s.calls, fmt.Sprintf(format, args...))
}

func (s *fakeStream) run(send func()) {
	s.note("send")
	if sending != nil {
		sending(send)
		return
	}
	send()
}

func (s *fakeStream) uses(torch.Tensor) { s.note("use") }

func (s *fakeStream) mark() (wait, free func()) {
	s.note("mark")
	n := s.marks
	s.marks++
	return func() { s.note("wait %d", n) }, func() { s.note("free %d", n) }
}

// SentAhead is how many batches are on the device and not used up.
func SentAhead[S, B any](s *Step[S, B]) int {
	return len(s.arrivals)
}

// SlicesOf are the lengths of the slices that are found in a batch.
func SlicesOf(batch any) (lengths []int) {
	for _, s := range slicesOf(batch) {
		lengths = append(lengths, s.n)
	}
	return lengths
}
