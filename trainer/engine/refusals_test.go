package engine_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// judgeTask evaluates by itself (engine.Evaluator).
type judgeTask struct{ tagTask }

func (t *judgeTask) Evaluate(p engine.ForwardPass, b tokenBatch) engine.Loss { return t.Loss(p, b) }
func (t *judgeTask) Metrics() map[string]float64                             { return nil }

func TestOptionsThatTheTaskOrTheModelCannotCarryOut(t *testing.T) {
	testenv.RequireTorch(t)
	plain := func(m any) engine.Task[tokens, tokenBatch] {
		return engine.TaskFunc(m, collateTokens, func(engine.ForwardPass, tokenBatch) engine.Loss {
			return engine.Loss{}
		})
	}
	noMetrics := func(*engine.Predictions) (map[string]float64, error) { return nil, nil }
	m := newTagger(0)
	for _, c := range []struct {
		claim string
		task  engine.Task[tokens, tokenBatch]
		o     engine.Options
		want  string
	}{
		{"a loss without outputs", plain(m), engine.Options{Loss: summed}, "Options.Loss is set, but engine.taskFunc"},
		{"smoothing without outputs", plain(m), engine.Options{LabelSmoothing: 0.1}, "must implement engine.Predictor"},
		{"metrics without outputs", plain(m), engine.Options{ComputeMetrics: noMetrics},
			"must implement engine.Predictor"},
		{"metrics with an evaluator", &judgeTask{tagTask{m}}, engine.Options{ComputeMetrics: noMetrics},
			"evaluates by itself"},
		{"noise without embeddings", plain(nn.NewLinear(1, 1, nil)), engine.Options{NEFTuneAlpha: 5},
			"InputEmbeddings() *nn.Embedding"},
		{"checkpointing of a model that cannot", plain(nn.NewLinear(1, 1, nil)),
			engine.Options{GradientCheckpointing: true}, "SetGradientCheckpointing"},
		{"two losses", tag(m), engine.Options{Loss: summed, LabelSmoothing: 0.1},
			"call engine.LabelSmoothing in that loss"},
		{"two kinds of metrics", tag(m), engine.Options{ComputeMetrics: noMetrics, BatchMetrics: &meanWidth{}},
			"want one of them"},
		{"too much smoothing", tag(m), engine.Options{LabelSmoothing: 1.5}, "want 0 to 1"},
		{"negative noise", tag(m), engine.Options{NEFTuneAlpha: -1}, "NEFTuneAlpha"},
		{"a negative number of batches", tag(m), engine.Options{EvalAccumulation: -1}, "EvalAccumulation"},
		{"TF32 on the CPU", tag(m), engine.Options{TF32: engine.TF32On}, "NVIDIA"},
		{"groups by two rules", tag(m), engine.Options{LowRankTargets: optim.Targets{Pattern: "x"},
			Groups: func(any, []torch.Named) []optim.Group { return nil }}, "want one of them"},
		{"targets that match nothing", tag(m), engine.Options{LowRankTargets: optim.Targets{Pattern: "attention"}},
			"no linear layer matches"},
		{"low rank without GaLore", tag(m), engine.Options{LowRankTargets: optim.Targets{Parts: []string{"hidden"}}},
			"has no low-rank form"},
	} {
		s, err := engine.New(c.task, c.o)
		if s != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.claim, err, c.want)
		}
	}
	m.InputEmbeddings().AfterForward = nil
}

func TestGaLoreProjectsTheTargetsOfTheOptions(t *testing.T) {
	testenv.RequireTorch(t)
	builder, err := optim.ByName("galore_adamw", optim.Arguments{OptimArgs: "rank=2"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := engine.New(tag(newTagger(0)), engine.Options{Optimizer: builder,
		LowRankTargets: optim.Targets{Parts: []string{"hidden"}}})
	if err != nil {
		t.Fatal(err)
	}
	g := s.Optimizer().Groups()
	if len(g) != 2 || len(g[1].Params) != 1 || g[1].Params[0].Name != "hidden.weight" || !g[1].LowRank {
		t.Errorf("the groups are %+v", g)
	}
}

func TestTaskThatShowsNoPredictionsSaysSo(t *testing.T) {
	testenv.RequireTorch(t)
	l := nn.NewLinear(1, 1, nil)
	s, err := engine.New(engine.TaskFunc(l, collateTokens,
		func(engine.ForwardPass, tokenBatch) engine.Loss { return engine.Loss{} }), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.StartEval(trainer.Evaluation{Predict: true}); err == nil || !strings.Contains(err.Error(),
		"engine.Predictor") {
		t.Errorf("error %v", err)
	}
}

func TestModelThatCannotBeMadeIsAnError(t *testing.T) {
	testenv.RequireTorch(t)
	broken := errors.New("no weights")
	if _, err := engine.NewFromInit(func() (engine.Task[tokens, tokenBatch], error) { return nil, broken },
		engine.Options{}); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if _, err := engine.NewFromInit(func() (engine.Task[tokens, tokenBatch], error) {
		torch.Zeros(2).MatMul(torch.Zeros(3))
		return nil, nil
	}, engine.Options{}); err == nil || !strings.Contains(err.Error(), "MatMul") {
		t.Errorf("error %v", err)
	}
	calls := 0
	s, err := engine.NewFromInit(func() (engine.Task[tokens, tokenBatch], error) {
		if calls++; calls > 1 {
			return nil, broken
		}
		return tag(newTagger(0)), nil
	}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Seed(1, trainer.SeedOptions{}); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

func TestMomentumOfAnOptimizerWithoutOne(t *testing.T) {
	s := newTagStep(t, engine.Options{Optimizer: optim.Adagrad{LR: 0.1}})
	if err := s.SetMomentum(0.9); !errors.Is(err, optim.ErrOption) {
		t.Errorf("error %v", err)
	}
}

func TestFullDeterminismRefusesWhatCannotBeRepeated(t *testing.T) {
	newTagStep(t, engine.Options{FullDeterminism: true})
	defer torch.UseDeterministicAlgorithms(false, false)
	// put_ with accumulate has no deterministic implementation.
	err := torch.Try(func() {
		torch.Call("aten::put_", torch.Zeros(3), torch.From([]int64{0, 0}), torch.Ones(2), false)
	})
	if err == nil || !strings.Contains(err.Error(), "deterministic") {
		t.Errorf("error %v", err)
	}
}

func TestAClassThatTheModelHasNoOutputForIsNamedWithItsRow(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range []struct {
		class int64
		want  string
	}{
		{1, ""},
		{engine.IgnoreIndex, ""},
		{2, "row 1 of the batch has class 2, but the model has 2 outputs, so the classes are 0 to 1"},
		{-1, "row 1 of the batch has class -1"},
	} {
		step, err := engine.New(engine.Classify(nn.NewLinear(1, 2, nil)), engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		tr, err := trainer.New(step, trainer.Options{Epochs: 1, BatchSize: 2, Order: data.Sequential{},
			Progress: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		_, err = tr.Fit(t.Context(), data.Slice[data.Example]{{Features: []float32{1}}, {Features: []float32{1},
			Class: c.class}}, nil)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("class %d: error %v, want one with %q", c.class, err, c.want)
		}
	}
}

func TestAStepNeedsATask(t *testing.T) {
	type example = engine.Task[data.Example, engine.Examples]
	_, err := engine.New[data.Example, engine.Examples](nil, engine.Options{})
	assert.EqualError(t, err, "engine: a Step needs a task, got nil")
	_, err = engine.NewFromInit[data.Example, engine.Examples](nil, engine.Options{})
	assert.EqualError(t, err, "engine: NewFromInit needs a function that makes a task, got nil")
	_, err = engine.NewFromInit(func() (example, error) { return nil, nil }, engine.Options{})
	assert.EqualError(t, err, "engine: the function that makes the model: it returned no task")
}
