package pytorchaccelerated_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	pa "github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// both runs a test with all defects and with none.
func both(t *testing.T, f func(t *testing.T, rules pa.Rules, exact bool)) {
	t.Run("mended", func(t *testing.T) { f(t, pa.Rules{}, false) })
	t.Run("exact", func(t *testing.T) { f(t, pa.Exact, true) })
}

func pick[T any](exact bool, yes, no T) T {
	if exact {
		return yes
	}
	return no
}

// Records by what the loss of each batch is divided, and whether callbacks see the divided loss.
func TestLossIsDividedByTheWindow(t *testing.T) {
	both(t, func(t *testing.T, rules pa.Rules, exact bool) {
		var shares []string
		var seen float64
		o := quiet(onStep(func(_ *pa.Run, e pa.TrainStepEnd) { seen = e.Output.Loss.Item() }))
		o.Rules = rules
		var whole float64
		o.Methods.CalculateTrainBatchLoss = func(t *trainer, b pa.Batch) (pa.BatchOutput, error) {
			out, err := t.CalculateTrainBatchLoss(b)
			whole = out.Loss.Item()
			return out, err
		}
		o.Methods.BackwardStep = func(t *trainer, loss torch.Tensor) error {
			shares = append(shares, fmt.Sprintf("%.0f %.0f", whole/loss.Item(), whole/seen))
			return t.BackwardStep(loss)
		}
		if err := run(lineTrainer(o), train{NumEpochs: 1, GradientAccumulationSteps: 3}); err != nil {
			t.Fatal(err)
		}
		want := pick(exact, []string{"3 3", "3 3", "3 3", "3 3"}, []string{"3 1", "3 1", "3 1", "1 1"})
		if diff := cmp.Diff(want, shares); diff != "" {
			t.Errorf("divisor of the loss, and of the one that callbacks see: %s", diff)
		}
	})
}

type onStep func(r *pa.Run, e pa.TrainStepEnd)

func (f onStep) OnTrainStepEnd(r *pa.Run, e pa.TrainStepEnd) error { f(r, e); return nil }

func TestGradientsAreClippedWhenTheyAreComplete(t *testing.T) {
	both(t, func(t *testing.T, rules pa.Rules, exact bool) {
		clips := 0
		o := quiet()
		o.Rules = rules
		o.Methods.ClipGradients = func(t *trainer) error { clips++; return t.ClipGradients() }
		if err := run(lineTrainer(o), train{NumEpochs: 1, GradientAccumulationSteps: 3,
			GradientClipValue: new(0.1)}); err != nil {
			t.Fatal(err)
		}
		if want := pick(exact, 4, 2); clips != want {
			t.Errorf("%d clips, want %d", clips, want)
		}
	})
}

func TestTrainingModeReturnsAfterAnEvaluationInsideAnEpoch(t *testing.T) {
	both(t, func(t *testing.T, rules pa.Rules, exact bool) {
		model := newNet()
		var modes []bool
		o := quiet(onStep(func(*pa.Run, pa.TrainStepEnd) { modes = append(modes, model.Dropout.Training()) }),
			&pa.StepBasedEvaluation{EvalEveryNSteps: 2})
		o.Rules = rules
		tr, err := pa.New(model, mse, optim.SGD{LR: 0.1}, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := run(tr, train{NumEpochs: 1}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(pick(exact, []bool{true, true, true, false}, []bool{true, true, true, true}),
			modes); diff != "" {
			t.Error(diff)
		}
	})
}

func TestMaxNumTrainStepsCountsUpdates(t *testing.T) {
	// 4 batches, 3 per update: 2 updates per epoch, of which Python counts 1
	both(t, func(t *testing.T, rules pa.Rules, exact bool) {
		o := quiet()
		o.Rules = rules
		tr := lineTrainer(o)
		if err := run(tr, train{MaxNumTrainSteps: 2, GradientAccumulationSteps: 3}); err != nil {
			t.Fatal(err)
		}
		if tr.Updates() != 2 {
			t.Errorf("%d updates, want 2", tr.Updates())
		}
		if err := run(tr, train{MaxNumTrainSteps: 3, GradientAccumulationSteps: 3}); err != nil {
			t.Fatal(err)
		}
		if tr.Updates() != 3 || tr.Config().NumEpochs != 2 {
			t.Errorf("%d updates of %d epochs, want 3 of 2", tr.Updates(), tr.Config().NumEpochs)
		}
	})
}

func TestSchedulesArePlannedForLimitedEpochs(t *testing.T) {
	both(t, func(t *testing.T, rules pa.Rules, exact bool) {
		o := quiet(&pa.LimitBatches{NumBatches: 1})
		o.Rules = rules
		tr := lineTrainer(o)
		if err := run(tr, train{}); err != nil {
			t.Fatal(err)
		}
		if got, want := tr.Config().NumUpdateStepsPerEpoch, pick(exact, 4, 1); got != want || tr.Updates() != 2 {
			t.Errorf("%d updates planned an epoch and %d made, want %d and 2", got, tr.Updates(), want)
		}
	})
}

func TestScheduleOfASecondTrain(t *testing.T) {
	both(t, func(t *testing.T, rules pa.Rules, exact bool) {
		o := quiet()
		o.Rules = rules
		tr := lineTrainer(o)
		for range 2 { // a drop at the end of each run of 8 updates
			if err := run(tr, train{CreateSchedulerFn: pa.Partial("StepLR", map[string]any{"step_size": 8,
				"gamma": 0.5})}); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := tr.LearningRate(), pick(exact, 0.025, 0.05); got != want {
			t.Errorf("rate %v, want %v", got, want)
		}
	})
}

func TestEveryStateOfARunWithAScheduleLoads(t *testing.T) {
	both(t, func(t *testing.T, rules pa.Rules, exact bool) {
		dir := t.TempDir()
		again := func(resume string) error {
			o := quiet(&pa.SaveTrainingState{SaveDir: dir, SaveEveryNEpochs: 1})
			o.Rules = rules
			return run(lineTrainer(o), train{CreateSchedulerFn: pa.CosineLR{}.Create, ResumeFrom: resume})
		}
		if err := again(""); err != nil {
			t.Fatal(err)
		}
		if err := again(filepath.Join(dir, "epoch_2")); (err != nil) != exact {
			t.Errorf("the second state: error %v, want one: %v", err, exact)
		}
	})
}

func TestBestValueKeepsItsName(t *testing.T) {
	both(t, func(t *testing.T, rules pa.Rules, exact bool) {
		path := filepath.Join(t.TempDir(), "best.pt")
		o := quiet(&pa.SaveBestModel{SavePath: path})
		o.Rules = rules
		if err := run(lineTrainer(o), train{NumEpochs: 3}); err != nil {
			t.Fatal(err)
		}
		c, err := lineTrainer(quiet()).LoadCheckpoint(path, pa.LoadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := c.Extra[pick(exact, "loss", "eval_loss_epoch")]; !ok {
			t.Errorf("kept are %v", c.Extra)
		}
	})
}

func TestEMACopiesIntegers(t *testing.T) {
	both(t, func(t *testing.T, rules pa.Rules, exact bool) {
		ema := &pa.ModelEMA{Decay: new(0.7), NoEvaluation: true, SavePath: filepath.Join(t.TempDir(), "ema.pt")}
		o := quiet(ema)
		o.Rules = rules
		tr, err := pa.New(newNet(), mse, optim.SGD{LR: 0.1}, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := run(tr, train{NumEpochs: 3}); err != nil {
			t.Fatal(err)
		}
		for _, a := range ema.Average() {
			if a.Name == "norm.num_batches_tracked" {
				if got, want := a.Tensor.Item(), pick(exact, 5.0, 12.0); got != want {
					t.Errorf("%s is %v, want %v", a.Name, got, want)
				}
				return
			}
		}
		t.Error("there is no norm.num_batches_tracked")
	})
}

func TestEarlyStoppingJudgesByThreshold(t *testing.T) {
	for _, c := range []struct {
		name    string
		stop    pa.EarlyStopping
		values  []float64
		counter int
		best    float64
		stopped bool
	}{
		{"a gain below the threshold is none and moves nothing", pa.EarlyStopping{Patience: 3},
			[]float64{1, 0.995, 0.985}, 0, 0.985, false},
		{"patience of 1 by default", pa.EarlyStopping{}, []float64{1, 1}, 1, 1, true},
		{"greater is better", pa.EarlyStopping{GreaterIsBetter: true, Patience: 2}, []float64{0.5, 0.7, 0.6}, 1, 0.7,
			false},
		{"nan is no improvement", pa.EarlyStopping{Patience: 2}, []float64{1, math.NaN()}, 1, 1, false},
		{"a threshold of zero", pa.EarlyStopping{Patience: 2, Threshold: new(0.0)}, []float64{1, 0.999}, 0, 0.999,
			false},
	} {
		t.Run(c.name, func(t *testing.T) {
			stop := c.stop
			stop.WatchMetric = "m"
			i := 0
			o := quiet(&stop)
			o.Methods.TrainEpochEnd = func(t *trainer) error {
				t.History().UpdateMetric("m", c.values[i])
				i++
				return nil
			}
			stopped := &sawStop{}
			o.Callbacks = append(o.Callbacks, stopped)
			if err := run(lineTrainer(o), train{NumEpochs: len(c.values)}); err != nil {
				t.Fatal(err)
			}
			if best, _ := stop.Best(); stop.Counter() != c.counter || best != c.best ||
				stopped.reason != "" != c.stopped {
				t.Errorf("counter %d, best %v, stopped %q; want %d, %v, %v", stop.Counter(), best, stopped.reason,
					c.counter, c.best, c.stopped)
			}
		})
	}
}

type sawStop struct{ reason string }

func (s *sawStop) OnStopTrainingError(_ *pa.Run, stop *pa.StopTrainingError) error {
	s.reason = stop.Reason
	return nil
}

// misspelt has no hook; byPointer has one only on its pointer type.
type (
	misspelt  struct{}
	byPointer struct{}
)

func (misspelt) OnTrainingEpochEnd(*pa.Run) error { return nil }
func (*byPointer) OnTrainEpochEnd(*pa.Run) error  { return nil }

func TestMistakesAreNamed(t *testing.T) {
	ctx := context.Background()
	newWith := func(o options) error {
		_, err := pa.New(zeroLine(), mse, optim.SGD{LR: 0.1}, o)
		return err
	}
	for _, c := range []struct {
		name string
		err  func() error
		want string
	}{
		{"no model", func() error { _, err := pa.New(nil, mse, optim.SGD{}, options{}); return err }, "model is nil"},
		{"no loss", func() error {
			_, err := pa.New(zeroLine(), nil, optim.SGD{}, options{})
			return err
		}, "loss is nil"},
		{"batches that are no pairs", func() error {
			_, err := pa.New(zeroLine(), mse, optim.SGD{}, pa.Options[int, int]{})
			return err
		}, "type of batches is int"},
		{"a misspelt hook", func() error { return newWith(quiet(misspelt{})) },
			"Callbacks[0] is pytorchaccelerated_test.misspelt"},
		{"a value whose pointer has the hook", func() error { return newWith(quiet(byPointer{})) },
			"give &byPointer{...}"},
		{"two of one type", func() error { return newWith(quiet(&byPointer{}, &byPointer{})) },
			"two callbacks of one type"},
		{"no epochs", func() error { return lineTrainer(quiet()).Train(ctx, line(4), train{}) }, "NumEpochs is 0"},
		{"a negative number", func() error {
			return lineTrainer(quiet()).Train(ctx, line(4), train{NumEpochs: -1})
		}, "NumEpochs is -1"},
		{"a negative clip value", func() error {
			return run(lineTrainer(quiet()), train{GradientClipValue: new(-1.0)})
		}, "GradientClipValue is -1"},
		{"an empty set", func() error {
			return lineTrainer(quiet()).Train(ctx, line(0), train{NumEpochs: 1})
		}, "at least one batch"},
		{"a sampler beside a permutation", func() error {
			return run(lineTrainer(quiet()), train{TrainLoader: pa.LoaderOptions{Shuffle: new(true), Sampler: order{}}})
		}, "TrainLoader.Shuffle is true"},
		{"an unknown schedule", func() error {
			return run(lineTrainer(quiet()), train{CreateSchedulerFn: pa.Partial("StepLr", nil)})
		}, "StepLr"},
		{"no schedule with phases", func() error {
			return run(lineTrainer(quiet(&pa.WSDCheckpoint{})), train{})
		}, "WSD{...}.Create"},
		{"a metric that nobody records", func() error {
			return run(lineTrainer(quiet(&pa.EarlyStopping{WatchMetric: "f1"})), train{})
		}, `no values have been recorded for the metric "f1"`},
		{"a limit of nothing", func() error {
			return run(lineTrainer(quiet(&pa.LimitBatches{})), train{})
		}, "NumBatches is 0"},
		{"no batch size", func() error {
			o := quiet()
			o.Methods.CalculateTrainBatchLoss = func(t *trainer, b pa.Batch) (pa.BatchOutput, error) {
				out, err := t.CalculateTrainBatchLoss(b)
				out.BatchSize = 0
				return out, err
			}
			return run(lineTrainer(o), train{})
		}, "CalculateTrainBatchLoss returned BatchSize 0"},
		{"an evaluation without a set", func() error {
			return lineTrainer(quiet(&pa.StepBasedEvaluation{EvalEveryNSteps: 1})).Train(ctx, line(8),
				train{NumEpochs: 1, PerDeviceBatchSize: 2})
		}, "TrainOptions.EvalDataset"},
		{"a state that is not there", func() error {
			return run(lineTrainer(quiet()), train{ResumeFrom: "nowhere"})
		}, "nowhere"},
		{"a shape that does not fit", func() error {
			tr, err := pa.New(nn.NewLinear(3, 1, nil), mse, optim.SGD{LR: 0.1}, quiet())
			if err != nil {
				return err
			}
			return run(tr, train{})
		}, "mat1 and mat2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.err()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

type order struct{}

func (order) Indices(_, n int) []int { return make([]int, n) }

func TestEnvironmentLimitIsChecked(t *testing.T) {
	t.Setenv(pa.LimitBatchesVariable, "many")
	if _, err := pa.New(zeroLine(), mse, optim.SGD{LR: 0.1}, quiet()); err == nil || !strings.Contains(err.Error(),
		pa.LimitBatchesVariable) {
		t.Errorf("error %v, want one that names the variable", err)
	}
	t.Setenv(pa.LimitBatchesVariable, "None")
	if _, err := pa.New(zeroLine(), mse, optim.SGD{LR: 0.1}, quiet()); err != nil {
		t.Error(err)
	}
}

func TestFailedHookIsNamed(t *testing.T) {
	broken := &atUpdate{1, false, func(*pa.Run) error { return errKilled }}
	err := run(lineTrainer(quiet(broken)), train{})
	var hook *pa.HookError
	if !errors.As(err, &hook) || hook.Event != "OnUpdateEnd" || !errors.Is(err, errKilled) {
		t.Errorf("error %v", err)
	}
}

func TestRunConfigIsJSON(t *testing.T) {
	tr := lineTrainer(quiet())
	if err := tr.Train(context.Background(), line(4), train{NumEpochs: 1}); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(tr.Config())
	if err != nil || !bytes.Contains(text, []byte(`"num_epochs":1`)) || !bytes.Contains(text,
		[]byte(`"eval_dl_kwargs":null`)) {
		t.Errorf("%s %v", text, err)
	}
}

func TestRemovePadding(t *testing.T) {
	torch.Scope(func() {
		x := torch.From([]float32{1, -100, -100, -100, 2, 3}, 3, 2)
		if diff := cmp.Diff([]float32{1, -100, 2, 3}, torch.Values[float32](pa.RemovePadding(x, -100))); diff != "" {
			t.Error(diff)
		}
	})
}

func FuzzLoadCheckpoint(f *testing.F) {
	f.Setenv("TMPDIR", f.TempDir()) // also of its workers, which may be killed
	f.Add([]byte("PK\x03\x04"))
	f.Add([]byte(`{"__metadata__":{"optimizer_state_dict":"{}"}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "a.pt")
		writeFile(t, path, content)
		tr := lineTrainer(quiet())
		if _, err := tr.LoadCheckpoint(path, pa.LoadOptions{}); err == nil {
			t.Skip() // a valid checkpoint
		}
		if w := tr.Model().(*nn.Linear).Weight.Item(); w != 0 {
			t.Errorf("a refused file has changed the model: %v", w)
		}
	})
}
