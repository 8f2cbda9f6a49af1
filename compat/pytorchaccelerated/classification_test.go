package pytorchaccelerated_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	pa "github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// choice is a model that returns its input as its output.
type choice struct {
	Unused *nn.Linear `module:"unused"` // an optimizer needs at least one parameter
}

func (*choice) Forward(x torch.Tensor) torch.Tensor { return x }

// voices returns samples with the given predictions and classes.
func voices(predictions, classes []int64) data.Dataset[pa.Sample] {
	return data.Func(len(classes), func(i int) (pa.Sample, error) {
		row := make([]float32, 5)
		row[predictions[i]] = 1
		return pa.Sample{Inputs: row, Class: classes[i]}, nil
	})
}

// The expected numbers were computed with torchmetrics 1.9.0 for five classes, average="macro",
// over batches of eight.
func TestClassificationMetricsAreThoseOfTorchmetrics(t *testing.T) {
	tr, err := pa.New(&choice{nn.NewLinear(1, 1, nil)}, functional.CrossEntropy, optim.SGD{LR: 0.1},
		quiet(&pa.ClassificationMetrics{}))
	require.NoError(t, err)
	for _, c := range []struct {
		predictions, classes        []int64
		accuracy, precision, recall float64
	}{
		{[]int64{0, 1, 0, 2, 1, 2, 2, 3, 2, 0, 3, 0, 0, 1, 0, 2, 1, 2, 2, 3, 2, 0, 3},
			[]int64{0, 2, 0, 2, 0, 3, 1, 3, 1, 3, 2, 0, 2, 0, 2, 1, 3, 1, 3, 1, 0, 2, 0},
			0.21739129722118378, 0.2008928656578064, 0.19880951941013336},
		{[]int64{0, 0, 1}, []int64{0, 2, 2}, 0.3333333432674408, 0.1666666716337204, 0.3333333432674408},
	} {
		require.NoError(t, tr.Evaluate(ctx(), voices(c.predictions, c.classes), pa.EvaluateOptions[pa.Sample,
			pa.Batch]{}))
		for name, want := range map[string]float64{"accuracy": c.accuracy, "precision": c.precision,
			"recall": c.recall} {
			got, err := tr.History().LatestMetric(name)
			require.NoError(t, err)
			assert.InDelta(t, want, got, 1e-7, name)
		}
	}
}

// pair is a custom batch type.
type pair struct{ inputs, targets []float32 }

func (p pair) Tensors(torch.Device) (inputs, targets torch.Tensor) {
	return torch.From(p.inputs, int64(len(p.inputs)/2), 2), torch.From(p.targets, int64(len(p.targets)))
}

func TestClassificationMetricsRefusesWhatAreNoClasses(t *testing.T) {
	assert.ErrorContains(t, run(lineTrainer(quiet(&pa.ClassificationMetrics{})), train{}),
		"the targets of a batch of type pytorchaccelerated.Batch are no classes")
	metrics := &pa.ClassificationMetrics{}
	output := func(shape ...int64) *pa.BatchOutput {
		return &pa.BatchOutput{ModelOutputs: []torch.Tensor{torch.Zeros(shape...)}}
	}
	torch.Scope(func() {
		for _, c := range []struct {
			batch  any
			output *pa.BatchOutput
			want   string
		}{
			{pa.Batch{Classes: []int64{1, 2}}, output(3, 2), "the batch has 2 targets and the model gave outputs for " +
				"3 rows"},
			{pa.Batch{Classes: []int64{1, 2}}, output(2), "of the shape [rows, classes]"},
			{pa.Batch{Classes: []int64{1, 2}}, &pa.BatchOutput{}, "the step has 0 ModelOutputs"},
			{pair{[]float32{1, 2}, []float32{1}}, output(1, 2), "want a Batch with Classes, or a Pair"},
		} {
			assert.ErrorContains(t, metrics.OnEvalStepEnd(nil, pa.EvalStepEnd{Batch: c.batch, Output: c.output}),
				c.want)
		}
	})
}
