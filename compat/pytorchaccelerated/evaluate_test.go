package pytorchaccelerated_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	pa "github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// evaluating evaluates between a batch's passes and its update.
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
