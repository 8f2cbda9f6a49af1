package contrastive_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/contrastive"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

// counts is a model whose vectors are the first two tokens of a text, and the first two pixels of an
// image.
type counts struct {
	ends    []int64
	sigmoid bool
}

func (counts) TextFeatures(ids, _ torch.Tensor) torch.Tensor {
	return ids.Narrow(1, 0, 2).ToDType(torch.Float32)
}
func (counts) ImageFeatures(pixels torch.Tensor) torch.Tensor {
	return pixels.Flatten(1, -1).Narrow(1, 0, 2)
}
func (counts) Similarities(texts, images torch.Tensor) torch.Tensor { return texts.MatMul(images.T()) }
func (counts) Limits() inputs.Limits                                { return inputs.Limits{VocabSize: 9, MaxLength: 4} }
func (counts) ImageLimits() inputs.ImageLimits {
	return inputs.ImageLimits{Channels: 1, Height: 1, Width: 2}
}
func (c counts) EOSTokenIDs() []int64   { return c.ends }
func (c counts) SigmoidLoss() bool      { return c.sigmoid }
func (counts) WriteConfig(string) error { return nil }

func sample(a, b float32, ids ...int64) contrastive.Sample {
	return contrastive.Sample{Text: inputs.Text{InputIDs: ids},
		Image: inputs.Image{Pixels: []float32{a, b}, Shape: []int64{1, 1, 2}}}
}

// TestTheLossChoosesBothWays compares with torch.nn.functional.cross_entropy of [[2, 1], [0, 3]] and
// of its transpose.
func TestTheLossChoosesBothWays(t *testing.T) {
	testenv.RequireTorch(t)
	task, err := contrastive.NewTask(counts{}, contrastive.TaskOptions{})
	require.NoError(t, err)
	b, err := task.Collate([]contrastive.Sample{sample(1, 0, 2, 1), sample(0, 1, 0, 3, 5)})
	require.NoError(t, err)
	assert.Equal(t, []int64{2, 1, 1, 2}, b.Images.Shape)
	all, nonPadding := task.CountTokens(b)
	assert.Equal(t, []int64{6, 5}, []int64{all, nonPadding})
	torch.NoGrad(func() {
		o := task.Predict(engine.ForwardPass{}, b)
		assert.Equal(t, []float32{2, 1, 0, 3}, torch.Values[float32](o.Logits[0]))
		// (0.313262 + 0.048587)/2 over texts, (0.126928 + 0.126928)/2 over images
		assert.InDelta(t, ((0.3132617+0.0485874)/2+0.1269280)/2, task.LossOf(engine.ForwardPass{}, o).Value.Item(), 1e-6)
		err := torch.Try(func() { task.LossOf(engine.ForwardPass{Part: true}, o) })
		assert.ErrorContains(t, err, "leave DivideOnOutOfMemory out")
	})
	task.Recycle(b)
}

// TestTheSigmoidLossAsksOfEachPair compares with torch.nn.functional.logsigmoid of [[2, -1], [0,
// 3]].
func TestTheSigmoidLossAsksOfEachPair(t *testing.T) {
	testenv.RequireTorch(t)
	task, err := contrastive.NewTask(counts{sigmoid: true}, contrastive.TaskOptions{})
	require.NoError(t, err)
	b, err := task.Collate([]contrastive.Sample{sample(1, 0, 2, 1), sample(0, 1, 0, 3, 5)})
	require.NoError(t, err)
	torch.NoGrad(func() {
		o := task.Predict(engine.ForwardPass{}, b)
		want := (0.1269280 + 1.3132617 + 0.6931472 + 0.0485874) / 2 // over texts
		assert.InDelta(t, want, task.LossOf(engine.ForwardPass{}, o).Value.Item(), 1e-6)
		err := torch.Try(func() { task.LossOf(engine.ForwardPass{Part: true}, o) })
		assert.ErrorContains(t, err, "leave DivideOnOutOfMemory out")
	})
}

func TestSamplesThatAModelCannotTakeAreNamed(t *testing.T) {
	task, err := contrastive.NewTask(counts{ends: []int64{8}}, contrastive.TaskOptions{})
	require.NoError(t, err)
	wide := sample(1, 2, 8)
	wide.Shape = []int64{1, 2, 1}
	short := sample(1, 2, 8)
	short.Pixels = short.Pixels[1:]
	for want, s := range map[string]contrastive.Sample{
		"the text has no end token":                                   sample(1, 2, 3, 4),
		"Shape is [1 2 1]; the model takes pictures of [1 1 2]":       wide,
		"the text has 5 tokens, but the model has positions for 4":    sample(1, 2, 1, 1, 1, 1, 8),
		"token 0 has the id 9, but the vocabulary of the model has 9": sample(1, 2, 9, 8),
		"Pixels has 1 values; Shape, [1 1 2], says 2":                 short,
	} {
		_, err := task.Collate([]contrastive.Sample{sample(1, 2, 8), s})
		var fault *inputs.SampleError
		if assert.ErrorAs(t, err, &fault, want) {
			assert.Equal(t, 1, fault.Index, want)
			assert.Equal(t, "contrastive", fault.Package)
		}
		assert.ErrorContains(t, err, want)
	}
	_, err = contrastive.NewTask(counts{}, contrastive.TaskOptions{Padding: data.Padding{Length: 5}})
	assert.ErrorContains(t, err, "TaskOptions.Padding.Length is 5")
}
