package pytorchaccelerated_test

import (
	"maps"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	pa "github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// evaluating evaluates between the forward pass of a batch and its update.
type evaluating struct{}

func (evaluating) OnTrainStepEnd(r *pa.Run, _ pa.TrainStepEnd) error {
	return r.EvaluateNow(pa.EvalEpoch{})
}

func TestAnEvaluationBeforeAnUpdateLeavesItAsItIs(t *testing.T) {
	testenv.RequireTorch(t)
	trained := func(callbacks ...any) []float32 {
		model := zeroLine()
		tr, err := pa.New(model, mse, optim.SGD{LR: 0.1}, quiet(callbacks...))
		require.NoError(t, err)
		require.NoError(t, run(tr, train{GradientAccumulationSteps: 2}))
		return torch.Values[float32](model.Weight)
	}
	want := trained()
	assert.NotZero(t, want[0])
	assert.Equal(t, want, trained(evaluating{}))
}

// The average replaces the weights while the graph of the current batch still needs them.
func TestAnAverageIsEvaluatedBetweenForwardAndBackward(t *testing.T) {
	testenv.RequireTorch(t)
	trained := func(callbacks ...any) map[string][]byte {
		torch.ManualSeed(1)
		model := nn.Sequential{nn.NewLinear(1, 6, nil), nn.NewBatchNorm1d(6, nil), nn.NewLinear(6, 1, nil)}
		tr, err := pa.New(model, mse, optim.SGD{LR: 0.1}, quiet(callbacks...))
		require.NoError(t, err)
		require.NoError(t, run(tr, train{NumEpochs: 1})) // a second epoch would have a different order
		return ends(tr.Run, &pa.ModelEMA{})
	}
	weights := func(ends map[string][]byte) map[string][]byte {
		maps.DeleteFunc(ends, func(name string, _ []byte) bool { return strings.HasPrefix(name, "history.ema_") })
		delete(ends, "generator") // evaluating the average draws from it, too
		return ends
	}
	for _, evaluation := range []any{&pa.StepBasedEvaluation{EvalEveryNSteps: 1}, evaluating{}} {
		ema := &pa.ModelEMA{SavePath: filepath.Join(t.TempDir(), "ema.pt"), UpdateEvery: 1}
		assert.Equal(t, weights(trained(evaluation)), weights(trained(ema, evaluation)), "%T", evaluation)
		value, _, _ := ema.Best()
		assert.NotZero(t, value)
	}
}

// The metrics of an evaluation that ended at a non-finite loss are not used; the next evaluation
// starts afresh.
func TestEvaluateFailsAtALossThatIsNotFinite(t *testing.T) {
	testenv.RequireTorch(t)
	tr := lineTrainer(quiet(&pa.TerminateOnNaN{}))
	broken := data.Map(line(5), func(s pa.Sample) (pa.Sample, error) {
		s.Targets = []float32{float32(math.NaN())}
		return s, nil
	})
	require.ErrorIs(t, tr.Evaluate(ctx(), broken, pa.EvaluateOptions[pa.Sample, pa.Batch]{}), pa.ErrNonFiniteLoss)
	require.NoError(t, tr.Evaluate(ctx(), line(5), pa.EvaluateOptions[pa.Sample, pa.Batch]{}))
}
