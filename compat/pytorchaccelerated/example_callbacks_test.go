package pytorchaccelerated_test

import (
	"errors"
	"fmt"
	"io/fs"
	"log"
	"math"
	"os"
	"path/filepath"

	pa "github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/optim"
)

// temporary returns a folder for an example, and a function that removes it.
func temporary() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }
}

func ExampleMoveModulesToDevice() {
	o := quiet(&pa.MoveModulesToDevice{})
	o.Modules = []any{nn.NewLinear(1, 1, nil)} // such as the embedding that a custom loss compares with
	fmt.Println(run(lineTrainer(o), train{}))
	// Output: <nil>
}

func ExampleTerminateOnNaN() {
	broken := data.Map(line(8), func(s pa.Sample) (pa.Sample, error) {
		s.Targets = []float32{float32(math.NaN())}
		return s, nil
	})
	t := lineTrainer(quiet(&pa.TerminateOnNaN{}))
	err := t.Train(ctx(), broken, train{NumEpochs: 2})
	fmt.Println(errors.Is(err, pa.ErrNonFiniteLoss), t.Updates())
	// Output: true 0
}

func ExamplePrintProgress() {
	o := quiet(&pa.PrintProgress{})
	o.Output = os.Stdout
	if err := run(lineTrainer(o), train{NumEpochs: 1}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Starting training run
	//
	// Starting epoch 1
	//
	// Starting eval epoch
	// Finishing training run
}

func ExampleProgressBar() {
	o := quiet(&pa.ProgressBar{})
	o.Progress = os.Stdout
	if err := run(lineTrainer(o), train{NumEpochs: 1}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 100%|████████████████████| 4/4
	// 100%|████████████████████| 3/3
}

func ExampleLogMetrics() {
	toTracker := func(_ *pa.Run, metrics []pa.Metric) error {
		for _, m := range metrics {
			fmt.Println(m.Name, m.Value < 1)
		}
		return nil
	}
	if err := run(lineTrainer(quiet(&pa.LogMetrics{Log: toTracker})), train{NumEpochs: 3}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// train_loss_epoch false
	// eval_loss_epoch true
	// train_loss_epoch true
	// eval_loss_epoch true
	// train_loss_epoch true
	// eval_loss_epoch true
}

func ExampleEarlyStopping() {
	stop := &pa.EarlyStopping{Patience: 2, Threshold: new(0.01)}
	t := lineTrainer(quiet(stop))
	if err := run(t, train{NumEpochs: 100}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(stop.Counter(), len(t.History().MetricValues("eval_loss_epoch")) < 20)
	// Output: 2 true
}

func ExampleSaveBestModel() {
	dir, remove := temporary()
	defer remove()
	best := &pa.SaveBestModel{SavePath: filepath.Join(dir, "best_model.pt")}
	t := lineTrainer(quiet(best))
	if err := run(t, train{NumEpochs: 4}); err != nil {
		log.Fatal(err)
	}
	value, epoch, _ := best.Best()
	latest, err := t.History().LatestMetric("eval_loss_epoch")
	fmt.Println(epoch, value == latest, err)
	// Output: 4 true <nil>
}

func ExampleModelEMA() {
	dir, remove := temporary()
	defer remove()
	ema := &pa.ModelEMA{Decay: new(0.5), SavePath: filepath.Join(dir, "ema_model.pt")}
	t := lineTrainer(quiet(ema))
	if err := run(t, train{NumEpochs: 1}); err != nil {
		log.Fatal(err)
	}
	bias := t.Model().(*nn.Linear).Bias.Item()
	fmt.Println(t.History().MetricNames(), ema.Average()[1].Name,
		float32(ema.Average()[1].Tensor.Item()) == float32(bias)/2)
	// Output: [train_loss_epoch eval_loss_epoch ema_model_eval_loss_epoch] bias true
}

// stages prints the evaluations of a run.
type stages struct{ batches int }

func (s *stages) OnEvalStepEnd(*pa.Run, pa.EvalStepEnd) error { s.batches++; return nil }
func (s *stages) OnEvalEpochEnd(r *pa.Run, e pa.EvalEpoch) error {
	fmt.Println("updates", r.Updates(), "intermediate", e.Intermediate, "batches", s.batches)
	s.batches = 0
	return nil
}

func ExampleStepBasedEvaluation() {
	if err := run(lineTrainer(quiet(&stages{}, &pa.StepBasedEvaluation{EvalEveryNSteps: 2})),
		train{NumEpochs: 1}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// updates 2 intermediate true batches 3
	// updates 4 intermediate false batches 3
}

func ExampleLimitEvalSteps() {
	if err := run(lineTrainer(quiet(&stages{}, &pa.LimitEvalSteps{NumEvalSteps: 1},
		&pa.StepBasedEvaluation{EvalEveryNSteps: 2})), train{NumEpochs: 1}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// updates 2 intermediate true batches 1
	// updates 4 intermediate false batches 3
}

func ExampleLimitBatches() {
	t := lineTrainer(quiet(&stages{}, &pa.LimitBatches{NumBatches: 2}))
	if err := run(t, train{NumEpochs: 1}); err != nil {
		log.Fatal(err)
	}
	// Output: updates 2 intermediate false batches 2
}

func ExampleLimitBatches_environment() {
	if err := os.Setenv(pa.LimitBatchesVariable, "1"); err != nil { // PT_ACC_LIMIT_BATCHES=1 before the program
		log.Fatal(err)
	}
	t := lineTrainer(quiet(&stages{}))
	_ = os.Unsetenv(pa.LimitBatchesVariable)
	if err := run(t, train{NumEpochs: 1}); err != nil {
		log.Fatal(err)
	}
	// Output: updates 1 intermediate false batches 1
}

func ExampleConvertSyncBatchNorm() {
	fmt.Println(run(lineTrainer(quiet(&pa.ConvertSyncBatchNorm{})), train{}))
	// Output: <nil>
}

func ExampleSaveTrainingState() {
	dir, remove := temporary()
	defer remove()
	states := func() []any {
		return []any{&pa.SaveTrainingState{SaveDir: dir, SaveEveryNEpochs: 1, MaxCheckpoints: 2, NotAtEnd: true}}
	}
	if err := run(lineTrainer(quiet(states()...)), train{NumEpochs: 3}); err != nil {
		log.Fatal(err)
	}
	resumed := lineTrainer(quiet(states()...))
	if err := run(resumed, train{NumEpochs: 5, ResumeFrom: filepath.Join(dir, "epoch_3")}); err != nil {
		log.Fatal(err)
	}
	left, err := fs.Glob(os.DirFS(dir), "*")
	fmt.Println(left, resumed.Updates(), len(resumed.History().MetricValues("train_loss_epoch")), err)
	// Output: [epoch_4 epoch_5] 20 5 <nil>
}

func ExampleWSDCheckpoint() {
	dir, remove := temporary()
	defer remove()
	t := lineTrainer(quiet(&pa.WSDCheckpoint{SaveDir: dir}))
	if err := run(t, train{CreateSchedulerFn: pa.WSD{DecayPhaseRatio: new(0.25)}.Create}); err != nil {
		log.Fatal(err)
	}
	left, err := fs.Glob(os.DirFS(dir), "*")
	fmt.Println(left, err)
	// Output: [checkpoint_6_wsd_pre_decay checkpoint_8_wsd_post_decay.pt] <nil>
}

func ExampleClassificationMetrics() {
	points := data.Func(10, func(i int) (pa.Sample, error) { // which of three rooms a point is in
		return pa.Sample{Inputs: []float32{float32(i % 3), 1}, Class: int64(i % 3)}, nil
	})
	t, err := pa.New(nn.NewLinear(2, 3, nil), functional.CrossEntropy, optim.Adam{LR: 0.1},
		quiet(&pa.ClassificationMetrics{}))
	if err != nil {
		log.Fatal(err)
	}
	err = t.Train(ctx(), points, train{NumEpochs: 40, EvalDataset: points})
	accuracy, _ := t.History().LatestMetric("accuracy")
	fmt.Println(t.History().MetricNames(), accuracy, err)
	// Output: [train_loss_epoch eval_loss_epoch accuracy precision recall] 1 <nil>
}
