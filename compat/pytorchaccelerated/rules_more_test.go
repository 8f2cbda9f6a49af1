package pytorchaccelerated_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	pa "github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// holds checks that an error is nil, or that it contains a text.
func holds(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("error %v, want %q in it", err, want)
	}
}

// with makes a Trainer with rules and callbacks.
func with(rules pa.Rules, callbacks ...any) *trainer {
	o := quiet(callbacks...)
	o.Rules = rules
	return lineTrainer(o)
}

func bias(t *trainer) float64 {
	for _, p := range t.Optimizer().Groups()[0].Params {
		if p.Name == "bias" {
			return p.Tensor.Item()
		}
	}
	return math.NaN()
}

func TestClippingAtNothingLeavesNoGradient(t *testing.T) {
	both(t, func(t *testing.T, rules pa.Rules, _ bool) {
		tr := with(rules)
		holds(t, run(tr, train{GradientClipValue: new(0.0)}), "")
		if got := bias(tr); got != 0 {
			t.Errorf("the bias has become %v, want 0", got)
		}
	})
}

func TestRunWithoutBatches(t *testing.T) {
	both(t, func(t *testing.T, rules pa.Rules, exact bool) {
		tr := with(rules)
		err := tr.Train(ctx(), line(3), train{NumEpochs: 2, PerDeviceBatchSize: 4,
			TrainLoader: pa.LoaderOptions{DropLast: true}})
		holds(t, err, pick(exact, "", "at least one batch"))
		if got := tr.History().MetricValues("train_loss_epoch"); exact && (len(got) != 2 || !math.IsNaN(got[0])) {
			t.Errorf("losses %v, want nan twice", got)
		}
	})
}

func TestEvaluationOfNothingIsNaN(t *testing.T) {
	both(t, func(t *testing.T, rules pa.Rules, _ bool) {
		tr := with(rules)
		holds(t, tr.Evaluate(ctx(), line(0), pa.EvaluateOptions[pa.Sample, pa.Batch]{}), "")
		if v, err := tr.History().LatestMetric("evaluation_loss"); err != nil || !math.IsNaN(v) {
			t.Errorf("evaluation_loss is %v, %v; want nan", v, err)
		}
	})
}

// A pass without batches draws its seed, so later random numbers are the same as in Python.
func TestPassWithoutBatchesDrawsItsSeed(t *testing.T) {
	var after []string
	for _, samples := range []int{0, 4} {
		tr := with(pa.Exact)
		holds(t, tr.Evaluate(ctx(), line(samples), pa.EvaluateOptions[pa.Sample, pa.Batch]{}), "")
		after = append(after, string(torch.DefaultGenerator(torch.CPU).State()))
	}
	if after[0] != after[1] {
		t.Error("the generator differs after an empty evaluation")
	}
}

// starts counts evaluation epochs.
type starts struct{ n int }

func (s *starts) OnEvalEpochStart(*pa.Run, pa.EvalEpoch) error {
	s.n++
	return nil
}

func TestEvaluationWithoutSetBeginsFirst(t *testing.T) {
	both(t, func(t *testing.T, rules pa.Rules, exact bool) {
		counter := &starts{}
		tr := with(rules, counter, &pa.ProgressBar{}, &pa.StepBasedEvaluation{EvalEveryNSteps: 1})
		holds(t, tr.Train(ctx(), line(8), train{NumEpochs: 1, PerDeviceBatchSize: 2}), "TrainOptions.EvalDataset")
		if want := pick(exact, 1, 0); counter.n != want {
			t.Errorf("%d evaluations have begun, want %d", counter.n, want)
		}
	})
}

func TestUnknownMetricIsKeptByLookups(t *testing.T) {
	both(t, func(t *testing.T, rules pa.Rules, exact bool) {
		tr := with(rules)
		if _, err := tr.History().LatestMetric("f1"); !errors.Is(err, pa.ErrNoMetric) {
			t.Fatal(err)
		}
		if got := slices.Contains(tr.History().MetricNames(), "f1"); got != exact {
			t.Errorf("f1 is known: %v, want %v", got, exact)
		}
	})
}

func TestEMAInEvaluations(t *testing.T) {
	both(t, func(t *testing.T, rules pa.Rules, exact bool) {
		tr := with(rules, &pa.ModelEMA{SavePath: filepath.Join(t.TempDir(), "ema.pt")})
		evaluate := func() error { return tr.Evaluate(ctx(), line(5), pa.EvaluateOptions[pa.Sample, pa.Batch]{}) }
		holds(t, evaluate(), pick(exact, "no average", ""))
		holds(t, run(tr, train{NumEpochs: 1}), "")
		holds(t, evaluate(), "")
		if got := slices.Contains(tr.History().MetricNames(), "ema_model_eval_loss_epoch"); got != exact {
			t.Errorf("the average is evaluated: %v, want %v", got, exact)
		}
	})
}

func TestEMAStaysAfterAnError(t *testing.T) {
	both(t, func(t *testing.T, rules pa.Rules, exact bool) {
		ema := &pa.ModelEMA{Decay: new(0.5), SavePath: filepath.Join(t.TempDir(), "nowhere", "ema.pt"),
			NoEvaluation: true}
		tr := with(rules, ema)
		if run(tr, train{NumEpochs: 1}) == nil {
			t.Fatal("saved into a missing folder")
		}
		average := ema.Average()[1].Tensor.Item()
		if got := bias(tr) == average; got != exact {
			t.Errorf("bias %v and its average %v: alike is %v, want %v", bias(tr), average, got, exact)
		}
		ema.SavePath = filepath.Join(t.TempDir(), "ema.pt")
		holds(t, run(tr, train{NumEpochs: 1}), pick(exact, "does not require grad", ""))
	})
}

func TestEMAOfNoMemoryIsTheModel(t *testing.T) {
	ema := &pa.ModelEMA{Decay: new(0.0), SavePath: filepath.Join(t.TempDir(), "ema.pt")}
	tr := with(pa.Rules{}, ema)
	holds(t, run(tr, train{NumEpochs: 1}), "")
	if got := ema.Average()[1].Tensor.Item(); got != bias(tr) {
		t.Errorf("the average of decay 0 is %v, want the bias %v", got, bias(tr))
	}
}

func TestPlateauFailsAtItsFirstStep(t *testing.T) {
	both(t, func(t *testing.T, rules pa.Rules, exact bool) {
		tr := with(rules)
		holds(t, run(tr, train{CreateSchedulerFn: pa.Partial("ReduceLROnPlateau", nil)}), pick(exact, "measured value",
			"ReduceLROnPlateau"))
		if moved := bias(tr) != 0; moved != exact {
			t.Errorf("an update was made: %v, want %v", moved, exact)
		}
		holds(t, run(tr, train{CreateSchedulerFn: pa.Partial("ReduceLROnPlateau", map[string]any{"factor": 2})}),
			pick(exact, "Factor", "ReduceLROnPlateau"))
	})
}

func TestSecondRunOfWSDSavesAgain(t *testing.T) {
	both(t, func(t *testing.T, rules pa.Rules, exact bool) {
		dir := t.TempDir()
		tr := with(rules, &pa.WSDCheckpoint{SaveDir: dir})
		// With Exact the decay has no updates, so that nothing is saved before the end.
		fn := pa.WSD{DecayPhaseRatio: new(pick(exact, 0.1, 0.5))}.Create
		holds(t, run(tr, train{NumEpochs: 1, CreateSchedulerFn: fn}), "")
		last := filepath.Join(dir, "checkpoint_4_wsd_post_decay.pt")
		if err := os.Remove(last); err != nil {
			t.Fatal(err)
		}
		holds(t, run(tr, train{NumEpochs: 1, CreateSchedulerFn: fn}), "")
		if _, err := os.Stat(last); (err != nil) != exact {
			t.Errorf("after the second run: %v, want the file to be missing: %v", err, exact)
		}
	})
}

func TestSecondRunKeepsWhatItIsNotGiven(t *testing.T) {
	both(t, func(t *testing.T, rules pa.Rules, exact bool) {
		tr := with(rules, &pa.StepBasedEvaluation{EvalEveryNSteps: 2})
		holds(t, run(tr, train{NumEpochs: 1, CreateSchedulerFn: pa.Partial("StepLR", map[string]any{"step_size": 1})}),
			"")
		rate := tr.LearningRate()
		err := tr.Train(ctx(), line(8), train{NumEpochs: 1, PerDeviceBatchSize: 2})
		holds(t, err, pick(exact, "", "TrainOptions.EvalDataset"))
		if fell := tr.LearningRate() < rate; fell != exact {
			t.Errorf("the schedule of the first run continues: %v, want %v", fell, exact)
		}
		limited := with(rules, &pa.LimitBatches{NumBatches: 1})
		holds(t, run(limited, train{NumEpochs: 1}), "")
		holds(t, limited.Train(ctx(), line(8), train{NumEpochs: 1}), pick(exact, "limited by LimitBatches", ""))
	})
}

func TestSecondCyclicRunBeginsAtItsBase(t *testing.T) {
	var rates []string
	o := quiet()
	o.Rules = pa.Exact
	o.Methods.OptimizerStep = func(t *trainer) error {
		rates = append(rates, fmt.Sprintf("%.3f", t.LearningRate()))
		return t.OptimizerStep()
	}
	tr := lineTrainer(o)
	for range 2 {
		holds(t, run(tr, train{NumEpochs: 1, CreateSchedulerFn: pa.Partial("CyclicLR", map[string]any{"base_lr": 0.001,
			"max_lr": 0.1, "step_size_up": 3, "cycle_momentum": false})}), "")
	}
	if got, want := strings.Join(rates, " "), "0.001 0.034 0.067 0.100 0.001 0.034 0.067 0.100"; got != want {
		t.Errorf("rates %s, want %s", got, want)
	}
}

func TestStateOfTooManyObjectsLeavesItsModel(t *testing.T) {
	both(t, func(t *testing.T, rules pa.Rules, exact bool) {
		dir := t.TempDir()
		fn := pa.Partial("StepLR", map[string]any{"step_size": 2})
		first := with(rules, &pa.SaveTrainingState{SaveDir: dir, SaveEveryNEpochs: 1})
		holds(t, run(first, train{NumEpochs: 2, CreateSchedulerFn: fn}), "")
		second := with(rules)
		holds(t, run(second, train{NumEpochs: 2, CreateSchedulerFn: fn, ResumeFrom: filepath.Join(dir, "final")}),
			pick(exact, "are registered now", ""))
		if got, want := bias(second), bias(first); got != want {
			t.Errorf("bias %v, want that of the state, %v", got, want)
		}
	})
}

func TestTimmTrainerRefusesOtherSchedules(t *testing.T) {
	for class, want := range map[string]string{"StepLR": "has no step_update", "wsd": "takes no epoch",
		"wsd that decays in no update": "ends after 2 updates", "none": ""} {
		o := quiet()
		o.Rules, o.Timm = pa.Exact, true
		tr, err := pa.New(zeroLine(), mse, optim.SGD{LR: 0.1}, o)
		if err != nil {
			t.Fatal(err)
		}
		fn := pa.Partial(class, map[string]any{"step_size": 2})
		switch class {
		case "wsd":
			fn = pa.WSD{DecayPhaseRatio: new(0.5)}.Create
		case "wsd that decays in no update":
			fn = pa.WSD{}.Create
		case "none":
			fn = nil
		}
		holds(t, tr.Train(context.Background(), line(16), train{NumEpochs: 1, EvalDataset: line(5),
			CreateSchedulerFn: fn}), want)
	}
}
