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

// Access to unexported identifiers, for tests.
var (
	RepeatedMean = repeatedMean
	PadAndConcat = padAndConcat
	DenseParams  = denseParams
)

// PretendGPUs makes the engine believe that libtorch sees n GPUs; again: it has not warned yet.
func PretendGPUs(t *testing.T, n int, again bool) {
	before := gpus
	gpus = func() int { return n }
	t.Cleanup(func() { gpus = before })
	if again {
		idleGPU = sync.Once{}
	}
}

// PretendCapability returns what New would say of options on a GPU with this capability.
func PretendCapability(t *testing.T, o Options, c cuda.Capability) (warning string, err error) {
	before := properties
	properties = func(torch.Device) (cuda.Properties, error) {
		return cuda.Properties{Name: "Test GPU", Capability: c}, nil
	}
	t.Cleanup(func() { properties = before })
	return o.slowBF16(), o.checkCapability()
}

// Apply applies the options for the whole program, even if this machine does not have the GPU.
func Apply(o Options) { o.apply() }

// EvalLossOf returns the loss of an evaluation whose batches had these float32 losses and rows.
func EvalLossOf(e trainer.Evaluation, losses []float64, rows []int) float64 {
	return evalLoss(e, losses, rows, torch.Float32)
}

// UseFloat16 makes a Step on the CPU train in float16 with a scaler, as on a GPU. New refuses this,
// since the arithmetic is slow on a CPU; the state is the same.
func UseFloat16[S, B any](s *Step[S, B], o amp.GradScalerOptions) {
	s.options.Precision, s.scaler = amp.FP16, amp.NewGradScaler(o)
}

// Scaler returns the scaler of a Step.
func Scaler[S, B any](s *Step[S, B]) *amp.GradScaler { return s.scaler }

// PretendGraphs makes a CPU support graphs, which are recorded and replayed call by call.
func PretendGraphs(t *testing.T) {
	before := hasGraphs
	hasGraphs = func(torch.Device) bool { return true }
	cgotorch.PretendGraphs(true)
	t.Cleanup(func() {
		hasGraphs = before
		cgotorch.PretendGraphs(false)
	})
}

// Replayed returns the number of micro-batches of a Step that were computed by graphs.
func Replayed[S, B any](s *Step[S, B]) int {
	if s.graphs == nil {
		return 0
	}
	return s.graphs.replayed
}

// PretendRemote makes Steps on the CPU behave as on a GPU in everything that concerns waiting. sent
// returns how many tensors have been sent to the device.
func PretendRemote(t *testing.T) (sent func() int) {
	remote, before, n := isRemote, send, 0
	isRemote = func(torch.Device) bool { return true }
	send = func(t torch.Tensor, d torch.Device) torch.Tensor { n++; return before(t, d) }
	t.Cleanup(func() { isRemote, send = remote, before })
	return func() int { return n }
}

// PretendSideStream makes Steps send batches ahead without a GPU. The calls of the side stream are
// recorded; an event has the number of its batch.
func PretendSideStream(t *testing.T) *[]string {
	before := newSideStream
	t.Cleanup(func() { newSideStream = before })
	var calls []string
	newSideStream = func(torch.Device) sideStream { return &fakeStream{calls: &calls} }
	return &calls
}

// FailSideStream replaces the function that sends; nil restores it.
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

// SentAhead returns the number of batches that are on the device and not used yet.
func SentAhead[S, B any](s *Step[S, B]) int {
	return len(s.arrivals)
}

// SlicesOf returns the lengths of the slices that are found in a batch.
func SlicesOf(batch any) (lengths []int) {
	for _, s := range slicesOf(batch) {
		lengths = append(lengths, s.n)
	}
	return lengths
}
