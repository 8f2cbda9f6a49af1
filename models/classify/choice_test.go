package classify_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// number gives each text the sum of its tokens' weights.
type number struct {
	Embedding *nn.Embedding `module:"embedding"`
}

func (n *number) Forward(ids, mask, _ torch.Tensor) torch.Tensor {
	x := n.Embedding.Forward(ids)
	if mask.Defined() {
		x = x.Mul(mask.Unsqueeze(2))
	}
	return x.SumDim([]int64{1}, false, torch.DefaultDType)
}
func (n *number) Head() classify.Head      { return classify.Head{} }
func (n *number) Limits() classify.Limits  { return classify.Limits{VocabSize: 10, MaxLength: 4} }
func (n *number) WriteConfig(string) error { return nil }

// newNumber makes a model in which a token's weight is its id.
func newNumber() *number {
	m := &number{nn.NewEmbedding(10, 1, nil)}
	torch.NoGrad(func() { m.Embedding.Weight.Copy_(torch.From([]float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 10, 1)) })
	return m
}

func choices(label int64, texts ...[]int64) (s classify.ChoiceSample) {
	s.Label = label
	for _, ids := range texts {
		s.Choices = append(s.Choices, inputs.Text{InputIDs: ids})
	}
	return s
}

func newChoiceTask(t *testing.T, m classify.Model) *classify.ChoiceTask {
	t.Helper()
	task, err := classify.NewChoiceTask(m, classify.ChoiceTaskOptions{})
	require.NoError(t, err)
	return task
}

func TestSamplesMayHaveDifferentNumbersOfChoices(t *testing.T) {
	testenv.RequireTorch(t)
	m := newNumber()
	task := newChoiceTask(t, m)
	three, two := choices(1, []int64{1}, []int64{1, 2}, []int64{2}), choices(0, []int64{5}, []int64{2, 2})
	ignored := choices(inputs.IgnoreIndex, []int64{9}, []int64{1})
	b, err := task.Collate([]classify.ChoiceSample{three, two, ignored})
	require.NoError(t, err)
	assert.Equal(t, []int{3, 2, 2}, b.Counts)
	assert.EqualValues(t, 2, task.CountLabels(b))
	all, nonPadding := task.CountTokens(b)
	assert.EqualValues(t, []int64{14, 9}, []int64{all, nonPadding})
	assert.Equal(t, 2, task.Length(three))

	o := task.Predict(engine.ForwardPass{}, b)
	inf := float32(math.Inf(-1))
	assert.Equal(t, []float32{1, 3, 2, 5, 4, inf, 9, 1, inf}, torch.Values[float32](o.Logits[0].Contiguous().View(-1)))
	loss := task.LossOf(engine.ForwardPass{}, o)
	want := (math.Log(math.Exp(-2)+1+math.Exp(-1)) + math.Log1p(math.Exp(-1))) / 2
	assert.InDelta(t, want, loss.Value.Item(), 1e-6)
	assert.Equal(t, 3, loss.Rows)
	loss.Value.Backward()
	grads := torch.Values[float32](m.Embedding.Weight.Grad().View(-1))
	for id, g := range grads {
		assert.False(t, math.IsNaN(float64(g)), "the gradient of token %d", id)
	}
	assert.Zero(t, grads[9], "of a sample that is ignored")

	// The same samples one by one have the same loss: padding and missing choices change nothing.
	sum := 0.0
	for _, s := range []classify.ChoiceSample{three, two} {
		b, err := task.Collate([]classify.ChoiceSample{s})
		require.NoError(t, err)
		sum += task.Loss(engine.ForwardPass{}, b).Value.Item()
	}
	assert.InDelta(t, want, sum/2, 1e-6)

	task.Observe(b, o)
	assert.Equal(t, map[string]float64{"accuracy": 1}, task.Metrics(), "of the samples that count")
}

func TestChoicesThatCannotBeTaken(t *testing.T) {
	good := choices(0, []int64{1}, []int64{2})
	for want, s := range map[string]classify.ChoiceSample{
		"sample 1 of the batch: Choices is empty":                    {},
		"Label is 2; want 0 to 1, or -100":                           choices(2, []int64{1}, []int64{2}),
		"Label is -1; want":                                          choices(-1, []int64{1}),
		"choice 1: token 0 has the id 10":                            choices(0, []int64{1}, []int64{10}),
		"choice 0: InputIDs is empty":                                choices(0, nil),
		"choice 1: the text has 5 tokens, but the model has positio": choices(0, []int64{1}, make([]int64, 5)),
	} {
		_, err := newChoiceTask(t, &number{}).Collate([]classify.ChoiceSample{good, s})
		assert.ErrorContains(t, err, want)
	}
	task := newChoiceTask(t, &number{})
	require.NoError(t, task.ValidateOptions(engine.Options{LabelSmoothing: 0.1}))
	_, err := task.Collate([]classify.ChoiceSample{good, choices(0, []int64{1})})
	assert.ErrorContains(t, err, "there are 1 choices, and 2 in the first sample; Options.LabelSmoothing needs as many")
	_, err = classify.NewChoiceTask(&number{}, classify.ChoiceTaskOptions{Padding: data.Padding{Left: true}})
	assert.ErrorContains(t, err, "pad on the right")
}
