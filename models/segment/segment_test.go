package segment_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/segformer"
	"github.com/gotrainer/gotrainer/models/segment"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// channels is a model whose logits are the channels of its pictures.
type channels struct{ labels int64 }

func (channels) Forward(pixels torch.Tensor) torch.Tensor { return pixels.MulScalar(1) }
func (m channels) Head() classify.Head {
	return classify.Head{NumLabels: m.labels, ID2Label: []string{"road", "sky", "car"}[:m.labels]}
}
func (m channels) ImageLimits() inputs.ImageLimits {
	return inputs.ImageLimits{Channels: m.labels, Height: 1, Width: 2, AnySize: true}
}
func (channels) IgnoreIndex() int64       { return 255 }
func (channels) WriteConfig(string) error { return nil }

// sample is a picture of one row.
func sample(labels []int64, channels ...[]float32) (s segment.Sample) {
	for _, c := range channels {
		s.Pixels = append(s.Pixels, c...)
	}
	s.Shape = []int64{int64(len(channels)), 1, int64(len(channels[0]))}
	s.Labels = labels
	return s
}

// judge evaluates batches.
func judge(t *testing.T, task *segment.Task, batches ...[]segment.Sample) {
	t.Helper()
	for _, samples := range batches {
		b, err := task.Collate(samples)
		require.NoError(t, err)
		torch.NoGrad(func() { task.Observe(b, task.Predict(engine.ForwardPass{}, b)) })
		task.Recycle(b)
	}
}

func TestMapsAreJudged(t *testing.T) {
	testenv.RequireTorch(t)
	task := segment.NewTask(channels{3}, segment.TaskOptions{})
	judge(t, task, []segment.Sample{
		sample([]int64{0, 1}, []float32{3, 3}, []float32{1, 1}, []float32{0, 0}),
		sample([]int64{1, 255}, []float32{1, 9}, []float32{2, 1}, []float32{0, 0}),
	}, []segment.Sample{sample([]int64{1, 1, 0}, []float32{3, 0, 3}, []float32{1, 1, 1}, []float32{0, 0, 0})})
	got := task.Metrics()
	assert.True(t, math.IsNaN(got["iou_car"]) && math.IsNaN(got["accuracy_car"]))
	delete(got, "iou_car")
	delete(got, "accuracy_car")
	assert.Equal(t, map[string]float64{"mean_iou": 0.5, "mean_accuracy": 0.75, "overall_accuracy": 4. / 6, "iou_road": 0.5,
		"accuracy_road": 1, "iou_sky": 0.5, "accuracy_sky": 0.5}, got)
	assert.True(t, math.IsNaN(task.Metrics()["mean_iou"]), "an evaluation starts over")
}

// TestOneLabelIsThereOrNot: the class is that of a logit above 0.
func TestOneLabelIsThereOrNot(t *testing.T) {
	testenv.RequireTorch(t)
	task := segment.NewTask(channels{1}, segment.TaskOptions{})
	samples := []segment.Sample{sample([]int64{0, 1, 1, 255}, []float32{-1, 2, -3, 4})}
	judge(t, task, samples)
	assert.Equal(t, map[string]float64{"mean_iou": 0.5, "mean_accuracy": 0.75, "overall_accuracy": 2. / 3,
		"iou_no road": 0.5, "accuracy_no road": 1, "iou_road": 0.5, "accuracy_road": 0.5}, task.Metrics())
	b, err := task.Collate(samples)
	require.NoError(t, err)
	assert.Equal(t, int64(4), task.CountLabels(b))
	loss := func(x float64) float64 { return math.Log1p(math.Exp(-x)) } // of a logit of the right sign
	assert.InDelta(t, (loss(1)+loss(2)+loss(-3))/4, task.Loss(engine.ForwardPass{}, b).Value.Item(), 1e-6)
}

func TestMapsMayBeLargerThanPictures(t *testing.T) {
	testenv.RequireTorch(t)
	task := segment.NewTask(channels{2}, segment.TaskOptions{})
	s := sample([]int64{0, 0, 0, 0, 1, 1, 1, 1}, []float32{9, 1}, []float32{1, 9})
	s.LabelShape = []int64{4, 2}
	s.Labels = []int64{0, 1, 0, 1, 0, 1, 0, 255}
	b, err := task.Collate([]segment.Sample{s, s})
	require.NoError(t, err)
	assert.Equal(t, []int64{2, 4, 2}, b.LabelShape)
	assert.Equal(t, int64(14), task.CountLabels(b))
	judge(t, task, []segment.Sample{s, s})
	assert.InDelta(t, 1, task.Metrics()["overall_accuracy"], 0)
}

// TestWithoutLabelsNothingIsCompared: a prediction has no loss.
func TestWithoutLabelsNothingIsCompared(t *testing.T) {
	testenv.RequireTorch(t)
	task := segment.NewTask(channels{2}, segment.TaskOptions{})
	s := sample(nil, []float32{9, 1}, []float32{1, 9})
	judge(t, task, []segment.Sample{s})
	b, err := task.Collate([]segment.Sample{s})
	require.NoError(t, err)
	o := task.Predict(engine.ForwardPass{}, b)
	assert.Empty(t, o.Labels)
	assert.False(t, task.LossOf(engine.ForwardPass{}, o).Value.Defined())
	assert.Equal(t, []int64{0, 1}, torch.Values[int64](segment.Predicted(o.Logits[0])))
}

func TestSamplesThatAModelCannotTakeAreNamed(t *testing.T) {
	first := sample([]int64{0, 1}, []float32{3, 3}, []float32{1, 1})
	with := func(change func(s *segment.Sample)) segment.Sample {
		s := first
		change(&s)
		return s
	}
	for want, s := range map[string]segment.Sample{
		"the label in row 0 and column 1 is 2; want 0 to 1, or 255 to leave the pixel out": with(
			func(s *segment.Sample) { s.Labels = []int64{0, 2} }),
		"column 0 is -100": with(func(s *segment.Sample) { s.Labels = []int64{-100, 0} }),
		"some samples of the batch have Labels and others have none": with(func(s *segment.Sample) { s.Labels = nil }),
		"its label map has [2 1] rows and columns, and that of the first sample has [1 2]": with(
			func(s *segment.Sample) { s.LabelShape = []int64{2, 1} }),
		"LabelShape is [2]; want a height and a width":     with(func(s *segment.Sample) { s.LabelShape = []int64{2} }),
		"Labels has 3 numbers; its map has [1 2]":          with(func(s *segment.Sample) { s.Labels = []int64{0, 1, 1} }),
		"Shape is [2 2]; the model takes [2 height width]": with(func(s *segment.Sample) { s.Shape = []int64{2, 2} }),
		"Pixels has 1 values; Shape, [2 1 2], says 4":      with(func(s *segment.Sample) { s.Pixels = s.Pixels[:1] }),
	} {
		_, err := segment.NewTask(channels{2}, segment.TaskOptions{}).Collate([]segment.Sample{first, s})
		var fault *inputs.SampleError
		require.ErrorAs(t, err, &fault)
		assert.Equal(t, 1, fault.Index)
		require.ErrorContains(t, err, want)
	}
	task := segment.NewTask(channels{2}, segment.TaskOptions{})
	require.ErrorContains(t, task.ValidateOptions(engine.Options{LabelSmoothing: 0.1}), "Options.LabelSmoothing is set")
	require.ErrorContains(t, task.ValidateOptions(engine.Options{NEFTuneAlpha: 5}), "NEFTuneAlpha is 5; want 0")
}

// TestTwoProcessesTrainAndJudgeOneModel: the evaluation of two processes is that of one.
func TestTwoProcessesTrainAndJudgeOneModel(t *testing.T) {
	_, _, samples := load(t)
	samples = samples[:21]
	config := segformer.Config{HiddenSizes: []int64{4}, Depths: []int64{1}, NumHeads: []int64{1}, SRRatios: []int64{1},
		PatchSizes: []int64{3}, Strides: []int64{4}, MLPRatios: []int64{1}, DecoderHiddenSize: 4,
		Head: classify.Head{NumLabels: 4}}
	model := func(seed uint64) *auto.SemanticSegmenter {
		torch.ManualSeed(seed)
		m, err := auto.NewSemanticSegmentation(config, nil)
		require.NoError(t, err)
		return m
	}
	run := func(g *dist.Group, rules semantics.Rules, m *auto.SemanticSegmenter, updates int) (trainer.Metrics, error) {
		step, err := engine.New(m.Task(), engine.Options{Optimizer: optim.AdamW{LR: 1e-3}})
		if err != nil {
			return nil, err
		}
		fit, err := trainer.New(step, trainer.Options{MaxSteps: max(1, updates), BatchSize: 2, EvalBatchSize: 4, Group: g,
			Semantics: rules, Save: trainer.Never, Progress: io.Discard})
		if err != nil {
			return nil, err
		}
		set := data.Slice[segment.Sample](samples)
		if updates > 0 {
			if _, err := fit.Fit(t.Context(), set, nil); err != nil {
				return nil, err
			}
		}
		return fit.Evaluate(t.Context(), set)
	}
	for _, rules := range []semantics.Rules{semantics.Default, semantics.HuggingFace} {
		want, err := run(nil, rules, model(0), 0)
		require.NoError(t, err)
		// drawn before the ranks start, which seed the generator that they share
		judged := [2]*auto.SemanticSegmenter{model(0), model(0)}
		trained := [2]*auto.SemanticSegmenter{model(0), model(1)} // the second gets the weights of the first
		var weights [2]map[string]string
		for rank, err := range ranktest.Together(t, 2, nil, func(_ context.Context, g *dist.Group) error {
			got, err := run(g, rules, judged[g.Rank()], 0)
			if err != nil {
				return err
			}
			for name, w := range want {
				if v := got[name]; v != w && !(math.IsNaN(v) && math.IsNaN(w)) && name != "loss" {
					err = errors.Join(err, fmt.Errorf("%s is %v, want %v", name, v, w))
				}
			}
			if err != nil {
				return err
			}
			m := trained[g.Rank()]
			_, err = run(g, rules, m, 3)
			weights[g.Rank()] = modeltest.Trained(m)
			return err
		}) {
			require.NoError(t, err, "%s, rank %d", rules.Name, rank)
		}
		assert.NotEmpty(t, weights[0])
		assert.Equal(t, weights[0], weights[1])
	}
}
