package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

func TestRepeatedMeanBitsEqualNumpy(t *testing.T) {
	testenv.RequireTorch(t)
	g := golden.Load(t, "testdata/hf.safetensors")
	means := readHF(t).Means
	if len(means) < 45 {
		t.Fatalf("%d means are recorded", len(means))
	}
	dtypes := map[string]torch.DType{"float32": torch.Float32, "float64": torch.Float64, "float16": torch.Float16}
	for i, c := range means {
		losses := torch.Values[float64](g.Tensor(fmt.Sprintf("mean.%d", i)).ToDType(torch.Float64))
		if got, want := engine.RepeatedMean(losses, c.Size, c.Rows, dtypes[c.DType]),
			parseHex(t, c.Mean); !sameBits(got, want) {
			t.Errorf("RepeatedMean of %d %s losses, %d times each, %d in all: %v, want %v", len(losses), c.DType,
				c.Size, c.Rows, got, want)
		}
	}
}

func TestLossOfAnEvaluation(t *testing.T) {
	losses, rows := []float64{1, 2, 6}, []int{4, 4, 1}
	for _, c := range []struct {
		claim string
		e     trainer.Evaluation
		want  float64
	}{
		{"every sample weighs the same", trainer.Evaluation{Loss: semantics.MeanOfRows}, 2},
		{"every batch weighs the same", trainer.Evaluation{Loss: semantics.MeanOfBatches}, 3},
		{"a short last batch is weighted by the rest of the set", trainer.Evaluation{Loss: semantics.RepeatedFloat32,
			BatchSize: 4, Rows: 9}, 2},
		{"a set without length is not cut", trainer.Evaluation{Loss: semantics.RepeatedFloat32, BatchSize: 4}, 3},
		{"a set whose last batch was left out has no more than was seen",
			trainer.Evaluation{Loss: semantics.RepeatedFloat32, BatchSize: 4, Rows: 14}, 3},
	} {
		if got := engine.EvalLossOf(c.e, losses, rows); got != c.want {
			t.Errorf("%s: %v, want %v", c.claim, got, c.want)
		}
	}
}

// The losses and their mean were recorded in pytorch_accelerated/accum3_clip_value, at the first
// evaluation.
func TestRowsInFloat32IsTheLossTrackerOfPytorchAccelerated(t *testing.T) {
	losses, rows := []float64{0x1.4dce0cp+0, 0x1.1bd74cp+0, 0x1.7b97cep+0, 0x1.071f8ap+0}, []int{2, 2, 2, 1}
	if got, want := engine.EvalLossOf(trainer.Evaluation{Loss: semantics.RowsInFloat32}, losses, rows),
		0x1.4283bp+0; got != want {
		t.Errorf("mean is %x, want %x", got, want)
	}
	if got := engine.EvalLossOf(trainer.Evaluation{Loss: semantics.MeanOfRows}, losses, rows); got == 0x1.4283bp+0 {
		t.Error("the mean in float64 is the same: these losses show nothing")
	}
}

func newTagStep(t testing.TB, o engine.Options) *tagStep {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	torch.ManualSeed(5)
	s, err := engine.New[tokens, tokenBatch](&tagTask{newTagger(0)}, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func evaluate(t testing.TB, s *tagStep, e trainer.Evaluation, batches ...tokenBatch) (trainer.Metrics, error) {
	t.Helper()
	if err := s.StartEval(e); err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		if err := s.Eval(t.Context(), b); err != nil {
			return nil, err
		}
	}
	return s.Metrics(t.Context())
}

// batchOf makes a batch of rows with the given widths, with token i%4+1 and label i%4 at position
// i.
func batchOf(t testing.TB, widths ...int) tokenBatch {
	t.Helper()
	var samples []tokens
	for k, w := range widths {
		s := tokens{row: k}
		for i := range w {
			s.ids, s.labels = append(s.ids, int64(i%4+1)), append(s.labels, int64(i%4))
		}
		samples = append(samples, s)
	}
	b, err := collateTokens(samples)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestManyBatchesGiveTheMeanOfTheirLosses(t *testing.T) {
	s := newTagStep(t, engine.Options{})
	long, short := batchOf(t, 3, 5), batchOf(t, 2)
	one, err := evaluate(t, s, trainer.Evaluation{}, long)
	if err != nil {
		t.Fatal(err)
	}
	two, err := evaluate(t, s, trainer.Evaluation{}, short)
	if err != nil {
		t.Fatal(err)
	}
	live := testenv.Live()
	var batches []tokenBatch
	for range 600 {
		batches = append(batches, long, short)
	}
	got, err := evaluate(t, s, trainer.Evaluation{Loss: semantics.MeanOfBatches}, batches...)
	if err != nil {
		t.Fatal(err)
	}
	if want := (one["loss"] + two["loss"]) / 2; math.Abs(got["loss"]-want) > 1e-12 {
		t.Errorf("loss %v over 1200 batches, want %v", got["loss"], want)
	}
	if now := torch.Live(); now != live {
		t.Errorf("%d tensors live after the evaluation, %d before", now, live)
	}
}

func TestPredictionsArePaddedAndBelongToTheCaller(t *testing.T) {
	s := newTagStep(t, engine.Options{EvalAccumulation: 2})
	if s.Predictions() != nil {
		t.Error("there are predictions before any evaluation")
	}
	if _, err := evaluate(t, s, trainer.Evaluation{Predict: true}, batchOf(t, 2, 3), batchOf(t, 5),
		batchOf(t, 1)); err != nil {
		t.Fatal(err)
	}
	p := s.Predictions()
	if got := p.Logits[0].Shape(); !reflect.DeepEqual(got, []int64{4, 5, taggerClasses}) {
		t.Errorf("the logits have shape %v", got)
	}
	const no = engine.IgnoreIndex
	want := []int64{0, 1, no, no, no, 0, 1, 2, no, no, 0, 1, 2, 3, 0, 0, no, no, no, no}
	if got := torch.Values[int64](p.Labels[0]); !reflect.DeepEqual(got, want) {
		t.Errorf("the labels are %v, want %v", got, want)
	}
	if last := torch.Values[float32](p.Logits[0]); last[len(last)-1] != no {
		t.Errorf("the padding of the logits is %v, want %d", last[len(last)-1], no)
	}
	if _, err := evaluate(t, s, trainer.Evaluation{}, batchOf(t, 2)); err != nil { // does not touch them
		t.Fatal(err)
	}
	if p.Rows != 4 || len(p.Losses) != 3 || p.Labels[0].Numel() != 20 {
		t.Errorf("after another evaluation there are %d rows, %d losses, %d labels", p.Rows, len(p.Losses),
			p.Labels[0].Numel())
	}
	p.Free()
}

func TestConcatenation(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range []struct {
		claim  string
		shapes [][]int64
		want   []int64
	}{
		{"numbers become a vector", [][]int64{{}, {}, {}}, []int64{3}},
		{"vectors are joined", [][]int64{{2}, {1}}, []int64{3}},
		{"equal widths are joined", [][]int64{{2, 3}, {1, 3}}, []int64{3, 3}},
		{"shorter ones are filled up", [][]int64{{2, 3}, {1, 5}, {1, 2}}, []int64{4, 5}},
		{"only the second dimension is filled up", [][]int64{{1, 1, 4}, {2, 2, 4}}, []int64{3, 2, 4}},
	} {
		var list []torch.Tensor
		for _, s := range c.shapes {
			list = append(list, torch.Ones(s...))
		}
		if got := engine.PadAndConcat(list).Shape(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: shape %v, want %v", c.claim, got, c.want)
		}
	}
}

// meanWidth is a metric that sees one batch at a time.
type meanWidth struct {
	sum, rows float64
	fail      error
}

func (m *meanWidth) Add(p *engine.Predictions) error {
	m.sum += float64(p.Logits[0].Size(1)) * float64(p.Rows)
	m.rows += float64(p.Rows)
	return m.fail
}

func (m *meanWidth) Result() (map[string]float64, error) {
	r := map[string]float64{"mean_width": m.sum / m.rows}
	*m = meanWidth{}
	return r, nil
}

func TestBatchMetricsSeeOneBatchAtATimeAndStartAnew(t *testing.T) {
	metric := &meanWidth{}
	s := newTagStep(t, engine.Options{BatchMetrics: metric})
	for range 2 {
		m, err := evaluate(t, s, trainer.Evaluation{}, batchOf(t, 2, 4), batchOf(t, 7))
		if err != nil || m["mean_width"] != 5 {
			t.Errorf("%v, %v; want mean_width 5", m, err)
		}
	}
	metric.fail = errors.New("no such width")
	if _, err := evaluate(t, s, trainer.Evaluation{}, batchOf(t, 2)); err == nil || !strings.Contains(err.Error(),
		"BatchMetrics: no such width") {
		t.Errorf("error %v", err)
	}
}

// Metrics of a part of a set are of no use, and the user's code may not be prepared for them.
func TestMetricsOfAPartAreNotComputed(t *testing.T) {
	metric := &meanWidth{}
	s := newTagStep(t, engine.Options{BatchMetrics: metric})
	anew := func(claim string) {
		metric.fail = nil
		m, err := evaluate(t, s, trainer.Evaluation{}, batchOf(t, 2, 4), batchOf(t, 7))
		require.NoError(t, err, claim)
		assert.InDelta(t, 5, m["mean_width"], 0, claim)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, s.StartEval(trainer.Evaluation{}))
	require.NoError(t, s.Eval(t.Context(), batchOf(t, 3)))
	_, err := s.Metrics(ended)
	require.ErrorIs(t, err, context.Canceled)
	assert.NotZero(t, metric.rows, "Result was not called")
	anew("after one that was interrupted")

	metric.fail = errors.New("no such width")
	_, err = evaluate(t, s, trainer.Evaluation{}, batchOf(t, 3))
	require.ErrorIs(t, err, metric.fail)
	anew("after one that failed")

	all := newTagStep(t, engine.Options{ComputeMetrics: func(*engine.Predictions) (map[string]float64, error) {
		panic("of a part")
	}})
	require.NoError(t, all.StartEval(trainer.Evaluation{}))
	require.NoError(t, all.Eval(t.Context(), batchOf(t, 3)))
	_, err = all.Metrics(ended)
	require.ErrorIs(t, err, context.Canceled)
}

func TestPreprocessedLogitsAreWhatMetricsSee(t *testing.T) {
	s := newTagStep(t, engine.Options{
		PreprocessLogits: func(logits, _ []torch.Tensor) []torch.Tensor {
			return []torch.Tensor{logits[0].ArgMax(-1, false)}
		},
		ComputeMetrics: func(p *engine.Predictions) (map[string]float64, error) {
			return map[string]float64{"dims": float64(p.Logits[0].Dim())}, nil
		},
	})
	if m, err := evaluate(t, s, trainer.Evaluation{}, batchOf(t, 2, 4)); err != nil || m["dims"] != 2 {
		t.Errorf("%v, %v; want 2 dimensions", m, err)
	}
}

func TestFailedMetricsFailTheEvaluation(t *testing.T) {
	s := newTagStep(t, engine.Options{ComputeMetrics: func(*engine.Predictions) (map[string]float64, error) {
		return nil, errors.New("undefined")
	}})
	if _, err := evaluate(t, s, trainer.Evaluation{}, batchOf(t, 2)); err == nil || !strings.Contains(err.Error(),
		"ComputeMetrics: undefined") {
		t.Errorf("error %v", err)
	}
}

// A set without labels gives predictions but no loss, in Hugging Face's Trainer, too.
func TestBatchesWithoutLabelsGivePredictionsAlone(t *testing.T) {
	testenv.RequireTorch(t)
	m := newTagger(0)
	task := engine.PredictFunc(m, collateTokens, func(p engine.ForwardPass, b tokenBatch) engine.Outputs {
		return engine.Outputs{Logits: []torch.Tensor{m.Forward(engine.Input(p, b.ids, int64(len(b.rows)),
			int64(b.width)))}, Rows: len(b.rows)}
	}, func(_ engine.ForwardPass, o engine.Outputs) engine.Loss {
		if len(o.Labels) == 0 {
			return engine.Loss{}
		}
		return engine.Mean(crossEntropy(o, torch.ReductionMean), o.Rows)
	})
	s, err := engine.New(task, engine.Options{ComputeMetrics: right})
	if err != nil {
		t.Fatal(err)
	}
	got, err := evaluate(t, s, trainer.Evaluation{Predict: true}, batchOf(t, 2, 3))
	if err != nil || len(got) != 0 {
		t.Errorf("%v, %v; want no numbers", got, err)
	}
	if p := s.Predictions(); p == nil || p.Rows != 2 || len(p.Labels) != 0 || len(p.Losses) != 0 {
		t.Errorf("predictions %+v", p)
	}
}

func TestAFailedEvaluationLeavesNothingForTheNext(t *testing.T) {
	s := newTagStep(t, engine.Options{FullEval: amp.BF16})
	want, err := evaluate(t, s, trainer.Evaluation{}, batchOf(t, 4))
	if err != nil {
		t.Fatal(err)
	}
	bad := batchOf(t, 2)
	bad.labels[0] = 99
	if _, err := evaluate(t, s, trainer.Evaluation{}, batchOf(t, 3), bad); err == nil {
		t.Fatal("a label beyond the classes was taken")
	}
	if got, err := evaluate(t, s, trainer.Evaluation{}, batchOf(t, 4)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

func TestFullEvalComputesInLowPrecisionAndPutsTheWeightsBack(t *testing.T) {
	whole, low := newStep(t, engine.Options{}), newStep(t, engine.Options{FullEval: amp.BF16})
	before := fingerprint(low)
	b, err := low.Collate(ring(16))
	if err != nil {
		t.Fatal(err)
	}
	loss := func(s *step) float64 {
		if err := s.Eval(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		m, err := s.Metrics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return m["loss"]
	}
	a, c := loss(whole), loss(low)
	if a == c || math.Abs(a-c) > 0.02*a {
		t.Errorf("the loss is %v in float32 and %v in bfloat16; want them near and not the same", a, c)
	}
	if c != float64(float32(c)) || math.Float32bits(float32(c))&0xffff != 0 {
		t.Errorf("the loss %v is no bfloat16", c)
	}
	if fingerprint(low) != before {
		t.Error("the weights are not what they were")
	}
	if err := low.Train(t.Context(), b, trainer.Window{Len: 1, Divisor: 1}); err != nil {
		t.Errorf("training after it: %v", err)
	}
}

func TestCounts(t *testing.T) {
	s := newTagStep(t, engine.Options{})
	b := batchOf(t, 2, 5)
	dense := int64(taggerDim*taggerDim + taggerDim + taggerDim*taggerClasses + taggerClasses)
	if got := engine.DenseParams(s.Model()); got != dense {
		t.Errorf("%d parameters without embeddings, want %d", got, dense)
	}
	assert.Equal(t, trainer.Counts{Tokens: 10, Flops: float64(6 * 10 * dense)}, s.Count(b))
	withoutPadding := newTagStep(t, engine.Options{NonPaddingTokens: true}).Count(b)
	assert.Equal(t, trainer.Counts{Tokens: 7, Flops: float64(6 * 10 * dense)}, withoutPadding)
	plain := newStep(t, engine.Options{})
	assert.Zero(t, plain.Count(engine.Examples{}), "a task that does not count")
	assert.False(t, plain.About().CountsTokens)
	assert.True(t, s.About().CountsTokens)
}

func TestMetricsOfAFailedEvaluationAreForgotten(t *testing.T) {
	s := newStep(t, engine.Options{})
	b, err := s.Collate(ring(16))
	if err != nil {
		t.Fatal(err)
	}
	want := accuracy(t, s, b)
	if err := s.StartEval(trainer.Evaluation{}); err != nil {
		t.Fatal(err)
	}
	wrong := engine.Examples{Features: b.Features, Classes: make([]int64, len(b.Classes))}
	for i, c := range b.Classes {
		wrong.Classes[i] = 1 - c
	}
	if err := s.Eval(t.Context(), wrong); err != nil {
		t.Fatal(err)
	}
	if got := accuracy(t, s, b); got != want { // the evaluation before was not ended
		t.Errorf("accuracy %v, want %v", got, want)
	}
}

func accuracy(t *testing.T, s *step, b engine.Examples) float64 {
	t.Helper()
	if err := s.StartEval(trainer.Evaluation{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Eval(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	m, err := s.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m["accuracy"]
}

func TestNoiseIsForTrainingStepsAlone(t *testing.T) {
	s := newTagStep(t, engine.Options{NEFTuneAlpha: 5})
	m := s.Model().(*tagger)
	ids := torch.From([]int64{1, 2, 3}, 1, 3)
	before := m.Forward(ids).Detach()
	if err := s.Train(t.Context(), batchOf(t, 3), trainer.Window{Len: 1, Divisor: 1}); err != nil {
		t.Fatal(err)
	}
	if !m.Forward(ids).Equal(before) {
		t.Error("the model itself has noise")
	}
}

// A callback that has run the model may leave it in evaluation mode.
func TestTrainingIsInTrainingModeWhateverACallbackLeaves(t *testing.T) {
	testenv.RequireTorch(t)
	drop := nn.NewDropout(0.5)
	s, err := engine.New(engine.Classify(nn.Sequential{nn.NewLinear(2, 3, nil), drop}), engine.Options{})
	require.NoError(t, err)
	batch, err := s.Collate(ring(3))
	require.NoError(t, err)
	w := trainer.Window{Len: 1, Divisor: 1}
	require.NoError(t, s.Train(t.Context(), batch, w))
	nn.SetTraining(s.Model(), false)
	require.NoError(t, s.Train(t.Context(), batch, w))
	assert.True(t, drop.Training())
}

func TestASampleThatIsToBeIgnoredIsInNoMetric(t *testing.T) {
	testenv.RequireTorch(t)
	model := newNet()
	nn.SetTraining(model, false)
	set := ring(4)
	var logits torch.Tensor
	predict := func() engine.Outputs {
		x := engine.Input(engine.ForwardPass{}, []float32{0, 1, 0.5, 0.2, 0.3, 0.9, 0.7, 0.1}, 4, 2)
		torch.NoGrad(func() { logits = model.Forward(x) })
		return engine.Outputs{Logits: []torch.Tensor{logits}, Rows: 4}
	}
	for _, shared := range []bool{false, true} {
		task := engine.Classify(model)
		observer, ok := task.(engine.Observer[engine.Examples])
		require.True(t, ok)
		o := predict()
		b := engine.Examples{Classes: torch.Values[int64](logits.ArgMax(-1, false))}
		b.Classes[2] = engine.IgnoreIndex
		observer.Observe(b, o)
		if shared {
			sharer, ok := task.(engine.ObservationSharer)
			require.True(t, ok)
			part, err := sharer.TakeObserved(len(set))
			require.NoError(t, err)
			require.NoError(t, sharer.AddObserved(part))
		}
		assert.Equal(t, map[string]float64{"accuracy": 1}, observer.Metrics(), "shared %t", shared)
	}
}

func TestALossOfNobodyKnowsHowManyRowsIsRefused(t *testing.T) {
	testenv.RequireTorch(t)
	m := newTagger(0)
	task := engine.TaskFunc(any(m), collateTokens, func(p engine.ForwardPass, b tokenBatch) engine.Loss {
		return engine.Loss{Value: (&tagTask{m}).Loss(p, b).Value}
	})
	s, err := engine.New(task, engine.Options{})
	require.NoError(t, err)
	_, err = evaluate(t, s, trainer.Evaluation{}, batchOf(t, 2))
	require.ErrorContains(t, err, "want the number of its samples, in Loss.Rows")
	got, err := evaluate(t, s, trainer.Evaluation{Loss: semantics.MeanOfBatches}, batchOf(t, 2))
	require.NoError(t, err, "here it does not matter")
	assert.False(t, math.IsNaN(got["loss"]))
}

// resultOnly fails if it is asked for a result without any batch.
type resultOnly struct{ t *testing.T }

func (r resultOnly) Add(*engine.Predictions) error { return errors.New("there are no labels") }
func (r resultOnly) Result() (map[string]float64, error) {
	r.t.Error("Result without an Add")
	return nil, nil
}

func TestMetricsOfATaskWithoutLabelsAreWarnedOfOnce(t *testing.T) {
	testenv.RequireTorch(t)
	m := newTagger(0)
	task := engine.PredictFunc(m, collateTokens, func(p engine.ForwardPass, b tokenBatch) engine.Outputs {
		o := (&tagTask{m}).Predict(p, b)
		o.Labels = nil
		return o
	}, func(_ engine.ForwardPass, o engine.Outputs) engine.Loss {
		return engine.Mean(o.Logits[0].Square().Mean(torch.DefaultDType), o.Rows)
	})
	for _, o := range []engine.Options{{ComputeMetrics: right}, {BatchMetrics: resultOnly{t}}} {
		var said []string
		o.Warn = func(text string) { said = append(said, text) }
		s, err := engine.New(task, o)
		require.NoError(t, err)
		for range 2 {
			_, err = evaluate(t, s, trainer.Evaluation{}, batchOf(t, 2))
			require.NoError(t, err)
		}
		require.Len(t, said, 1)
		assert.Contains(t, said[0], "shows no labels (engine.Outputs.Labels), so it has no effect")
	}
}
