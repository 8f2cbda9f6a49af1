package trainer_test

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/callback"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

type noHook struct{}

type pointerHook struct{}

func (*pointerHook) StepEnd(*trainer.Run) error { return nil }

func TestNewNamesTheOptionThatIsWrong(t *testing.T) {
	full, bare := trainer.Step[int, []int](new(trainertest.Step)),
		trainer.Step[int, []int](new(bareStep))
	for _, c := range []struct {
		claim string
		step  trainer.Step[int, []int]
		o     trainer.Options
		want  string
	}{
		{"negative epochs", full, trainer.Options{Epochs: -1}, "Options.Epochs is -1"},
		{"nan epochs", full, trainer.Options{Epochs: math.NaN()}, "Options.Epochs is NaN"},
		{"two lengths", full, trainer.Options{Epochs: 1, MaxSteps: 5}, "MaxSteps is 5, which alone decides"},
		{"negative steps", full, trainer.Options{MaxSteps: -1}, "Options.MaxSteps is -1"},
		{"negative batch", full, trainer.Options{BatchSize: -8}, "Options.BatchSize is -8"},
		{"negative window", full, trainer.Options{Accumulate: -2}, "Options.Accumulate is -2"},
		{"negative rate", full, trainer.Options{LearningRate: -0.1}, "Options.LearningRate is -0.1"},
		{"infinite rate", full, trainer.Options{LearningRate: math.Inf(1)}, "Options.LearningRate is +Inf"},
		{"a wrong schedule", full, trainer.Options{Schedule: lr.Linear{Warmup: -1}}, "Linear.Warmup is -1"},
		{"a trigger of nothing", full, trainer.Options{Log: trainer.Every(0, trainer.Update)},
			"Options.Log is Every(0, Update)"},
		{"a trigger without unit", full, trainer.Options{Log: trainer.Every(1, 0)}, "the unit Update or Epoch"},
		{"a share of more than all", full, trainer.Options{Eval: trainer.EveryShare(1.5)},
			"Options.Eval is EveryShare(1.5)"},
		{"evaluating at the best", full, trainer.Options{Eval: trainer.AtBest}, "only Save can be AtBest"},
		{"saving nowhere", full, trainer.Options{Save: trainer.Every(1, trainer.Epoch)},
			"Options.OutputDir is \"\": want a folder, since Save is set"},
		{"resuming from nowhere", full, trainer.Options{ResumeFrom: trainer.Latest}, "since ResumeFrom is set"},
		{"the best of nothing saved", full, trainer.Options{OutputDir: "x", Save: trainer.Never, LoadBestAtEnd: true},
			"Save is Never"},
		{"the best of no evaluation", full, trainer.Options{OutputDir: "x", Eval: trainer.Never, LoadBestAtEnd: true},
			"Eval is Never"},
		{"overwrite and resume", full, trainer.Options{OutputDir: "x", Overwrite: true, ResumeFrom: trainer.Latest},
			"either resumed or started over"},
		{"an unknown direction", full, trainer.Options{Direction: 7}, "Options.Direction is 7"},
		{"an unknown divisor", full, trainer.Options{Semantics: semantics.Rules{Divisor: 9}}, "Rules.Divisor is 9"},
		{"no hook", full, trainer.Options{Callbacks: []any{noHook{}}}, "Callbacks[0] is trainer_test.noHook"},
		{"a nil hook", full, trainer.Options{Callbacks: []any{&callback.EarlyStopping{}, nil}}, "Callbacks[1] is nil"},
		{"a hook with pointer methods", full, trainer.Options{Callbacks: []any{pointerHook{}}},
			"want &pointerHook{...}, since its methods have a pointer receiver"},
		{"a step that cannot be saved", bare, trainer.Options{OutputDir: "x"},
			"trainer_test.bareStep cannot be saved: About().Saves is false"},
		{"a step that cannot filter", bare, trainer.Options{Semantics: semantics.HuggingFace},
			"About().FiltersLoss is false"},
		{"no step", nil, trainer.Options{}, "New needs a step"},
	} {
		_, err := trainer.New(c.step, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: New = %v, want an error with %q", c.claim, err, c.want)
		}
	}
}

func TestFitNamesWhatDoesNotFitTheData(t *testing.T) {
	for _, c := range []struct {
		claim        string
		o            trainer.Options
		train, valid data.Dataset[int]
		want         string
	}{
		{"no data", trainer.Options{}, nil, nil, "at least one sample"},
		{"empty data", trainer.Options{}, trainertest.Samples(0), nil, "at least one sample"},
		{"empty validation", trainer.Options{}, trainertest.Samples(4), trainertest.Samples(0),
			"validation set is empty"},
		{"evaluation without data", trainer.Options{Eval: trainer.Every(1, trainer.Epoch)}, trainertest.Samples(4), nil,
			"Options.Eval is Every(1, Epoch)"},
		{"evaluation at the start without data", trainer.Options{EvalOnStart: true}, trainertest.Samples(4), nil,
			"Options.EvalOnStart"},
		{"everything dropped", trainer.Options{DropLast: true}, trainertest.Samples(4), nil,
			"less than one batch of 8"},
	} {
		c.o.Progress = io.Discard
		tr, err := trainer.New[int, []int](new(trainertest.Step), c.o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Fit(t.Context(), c.train, c.valid); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Fit = %v, want an error with %q", c.claim, err, c.want)
		}
	}
}

func TestRefusedOptionsHaveTheExitCodeOfAConfiguration(t *testing.T) {
	for _, o := range []trainer.Options{
		{Epochs: -1}, {Schedule: lr.Linear{Warmup: -1}}, {Adaptive: lr.ReduceLROnPlateau{Factor: 2}}, {CountTokens: true},
	} {
		o.Progress = io.Discard
		_, err := trainer.New[int, []int](new(bareStep), o)
		require.Error(t, err)
		assert.Equal(t, run.Configuration, run.CodeOf(err), err)
	}
}

func TestHuggingFaceRefusesABestModelThatMayBeUnsaved(t *testing.T) {
	o := trainer.Options{OutputDir: t.TempDir(), LoadBestAtEnd: true, Eval: trainer.Every(2, trainer.Update),
		Save: trainer.Every(3, trainer.Update), Progress: io.Discard}
	o.Semantics = semantics.HuggingFace
	_, err := runOnce(t.Context(), new(trainertest.Step), o)
	var wrong *trainer.OptionError
	if !errors.As(err, &wrong) || wrong.Field != "LoadBestAtEnd" {
		t.Errorf("Fit = %v, want an OptionError about LoadBestAtEnd", err)
	}
}

func TestTheRateComesFromTheOptimizerUnlessItIsGiven(t *testing.T) {
	for _, c := range []struct {
		own, given, want float64
	}{{0, 0, 5e-5}, {0.3, 0, 0.3}, {0.3, 0.1, 0.1}} {
		step := &ratedStep{rate: c.own}
		tr, err := trainer.New[int, []int](step, trainer.Options{LearningRate: c.given, Schedule: lr.Constant{},
			MaxSteps: 1, Progress: io.Discard, LogFirst: true})
		if err != nil {
			t.Fatal(err)
		}
		r, err := tr.Fit(t.Context(), trainertest.Samples(2), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.History[0]["learning_rate"]; got != c.want {
			t.Errorf("optimizer %v, option %v: rate %v, want %v", c.own, c.given, got, c.want)
		}
	}
}

type ratedStep struct {
	trainertest.Step
	rate float64
}

func (s *ratedStep) About() trainer.About { return trainer.About{LearningRate: s.rate} }

func TestScheduleThatDoesNotFitTheRunIsRefusedBeforeItBegins(t *testing.T) {
	tr, err := trainer.New(new(trainertest.Step), trainer.Options{Schedule: lr.Polynomial{Warmup: 3}, MaxSteps: 10,
		LearningRate: 1e-8, Progress: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Fit(context.Background(), trainertest.Samples(10), nil); err == nil ||
		!strings.Contains(err.Error(), "Options.Schedule") {
		t.Errorf("error %v, want one about Options.Schedule: the end rate 1e-7 is above the peak 1e-8", err)
	}
}

func TestHeaderNamesTheScheduleAndItsSettings(t *testing.T) {
	var header strings.Builder
	tr, err := trainer.New(new(trainertest.Step), trainer.Options{Schedule: lr.Cosine{Warmup: 0.05}, MaxSteps: 1,
		Progress: &header})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Fit(context.Background(), trainertest.Samples(2), nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(header.String(), ", Cosine, Warmup 0.05\n") {
		t.Errorf("header:\n%s\nwant the line of the rate to end in: Cosine, Warmup 0.05", header.String())
	}
}
