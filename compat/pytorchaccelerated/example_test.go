package pytorchaccelerated_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	pa "github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
)

// A model, a loss function, an optimizer: trained, evaluated, and trained again.
func Example() {
	ctx := context.Background()
	silent := pa.Options[pa.Sample, pa.Batch]{Output: io.Discard, Progress: io.Discard}
	t, err := pa.New(zeroLine(), mse, optim.SGD{LR: 0.1}, silent)
	if err != nil {
		log.Fatal(err)
	}
	o := pa.TrainOptions[pa.Sample, pa.Batch]{NumEpochs: 3, EvalDataset: line(5), PerDeviceBatchSize: 2}
	if err := t.Train(ctx, line(8), o); err != nil {
		log.Fatal(err)
	}
	fmt.Println("epochs:", len(t.History().MetricValues("eval_loss_epoch")))
	if err := t.Evaluate(ctx, line(5), pa.EvaluateOptions[pa.Sample, pa.Batch]{}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.History().MetricNames())
	o.NumEpochs = 60
	if err := t.Train(ctx, line(8), o); err != nil {
		log.Fatal(err)
	}
	model := t.Model().(*nn.Linear)
	fmt.Printf("y = %.1f x + %.1f\n", model.Weight.Item(), model.Bias.Item())
	// Output:
	// epochs: 3
	// [evaluation_loss]
	// y = 2.0 x + 1.0
}

// What a subclass overrides is a field of Methods. Here the mean of the outputs is recorded as a
// metric.
func ExampleMethods() {
	sum, n := 0.0, 0
	o := quiet()
	o.Methods = pa.Methods[pa.Sample, pa.Batch]{
		CalculateEvalBatchLoss: func(t *trainer, batch pa.Batch) (pa.BatchOutput, error) {
			out, err := t.CalculateEvalBatchLoss(batch) // super()
			if err == nil {
				sum += out.ModelOutputs[0].Sum(out.Loss.DType()).Item()
				n += out.BatchSize
			}
			return out, err
		},
		EvalEpochEnd: func(t *trainer) error {
			t.History().UpdateMetric("mean_output", sum/float64(n))
			sum, n = 0, 0
			return t.EvalEpochEnd()
		},
	}
	t := lineTrainer(o)
	if err := run(t, train{NumEpochs: 50}); err != nil {
		log.Fatal(err)
	}
	mean, err := t.History().LatestMetric("mean_output")
	fmt.Printf("%.1f %v\n", mean, err)
	// Output: 2.0 <nil>
}

// The numbers that a schedule needs are known when it is made: functools.partial(OneCycleLR,
// epochs=NUM_EPOCHS, ...).
func ExamplePartial() {
	t := lineTrainer(quiet())
	err := run(t, train{NumEpochs: 3, CreateSchedulerFn: pa.Partial("StepLR", map[string]any{
		"step_size": pa.NumUpdateStepsPerEpoch.Mul(2), "gamma": 0.5, // every two epochs
	})})
	fmt.Println(t.LearningRate(), err)
	// Output: 0.05 <nil>
}

// A schedule by its type, with the same numbers.
func ExampleSchedulerFn() {
	t := lineTrainer(quiet())
	err := run(t, train{NumEpochs: 3, CreateSchedulerFn: func(p pa.Placeholders) (lr.Schedule, error) {
		return lr.StepLR{StepSize: 2 * p.NumUpdateStepsPerEpoch, Gamma: 0.5}, nil
	}})
	fmt.Println(t.LearningRate(), err)
	// Output: 0.05 <nil>
}

// show prints the value of a placeholder in a run of 3 epochs of 4 batches, with two batches per
// update and 3 batches in the evaluation.
func show(p pa.Placeholder) {
	err := run(lineTrainer(quiet()), train{NumEpochs: 3, GradientAccumulationSteps: 2,
		CreateSchedulerFn: func(values pa.Placeholders) (lr.Schedule, error) {
			fmt.Println(p, "=", p.Value(values))
			return lr.Constant{}, nil
		}})
	if err != nil {
		log.Fatal(err)
	}
}

func ExamplePlaceholder_numEpochs() {
	show(pa.NumEpochs)
	// Output: NUM_EPOCHS = 3
}

func ExamplePlaceholder_numUpdateStepsPerEpoch() {
	show(pa.NumUpdateStepsPerEpoch)
	// Output: NUM_UPDATE_STEPS_PER_EPOCH = 2
}

func ExamplePlaceholder_perProcessNumUpdateStepsPerEpoch() {
	show(pa.PerProcessNumUpdateStepsPerEpoch)
	// Output: PER_PROCESS_NUM_UPDATE_STEPS_PER_EPOCH = 2
}

func ExamplePlaceholder_trainDataloaderLen() {
	show(pa.TrainDataloaderLen)
	// Output: TRAIN_DATALOADER_LEN = 4
}

func ExamplePlaceholder_evalDataloaderLen() {
	show(pa.EvalDataloaderLen)
	// Output: EVAL_DATALOADER_LEN = 3
}

func ExamplePlaceholder_Mul() {
	show(pa.NumUpdateStepsPerEpoch.Mul(7).Add(-1))
	show(pa.NumEpochs.Add(1).Mul(2))
	// Output:
	// NUM_UPDATE_STEPS_PER_EPOCH*7-1 = 13
	// (NUM_EPOCHS+1)*2 = 8
}

// rates prints the rate after each update of a run of 2 epochs of 4 updates.
type rates struct{}

func (rates) OnUpdateEnd(r *pa.Run) error {
	fmt.Printf("%.4f ", r.LearningRate())
	return nil
}

func ExampleCosineLR() {
	err := run(lineTrainer(quiet(rates{})), train{CreateSchedulerFn: pa.CosineLR{NumWarmupEpochs: 1, LRMin: new(0.0),
		WarmupStartingLR: new(0.02)}.Create})
	fmt.Println(err)
	// Output: 0.0400 0.0600 0.0800 0.1000 0.0854 0.0500 0.0146 0.0000 <nil>
}

func ExampleWSD() {
	err := run(lineTrainer(quiet(rates{})), train{CreateSchedulerFn: pa.WSD{DecayPhaseRatio: new(0.5),
		LRMin: new(0.1)}.Create})
	fmt.Println(err)
	// Output: 0.1000 0.1000 0.1000 0.1000 0.0550 0.0364 0.0221 0.0221 <nil>
}

// timm's schedulers are those of package lr: TrainerWithTimmScheduler.
func ExampleOptions_timm() {
	o := quiet(rates{})
	o.Timm = true
	err := run(lineTrainer(o), train{CreateSchedulerFn: func(p pa.Placeholders) (lr.Schedule, error) {
		return lr.PerEpoch{Schedule: lr.TimmStep{DecayT: 1, DecayRate: new(0.5)}, Updates: p.NumUpdateStepsPerEpoch},
			nil
	}})
	fmt.Println(err)
	// Output: 0.1000 0.1000 0.1000 0.0500 0.0500 0.0500 0.0500 0.0250 <nil>
}

func ExampleRunHistory() {
	var h pa.RunHistory = &pa.InMemoryRunHistory{}
	h.UpdateMetric("accuracy", 0.5)
	h.SetMetricNamePrefix("ema_")
	h.UpdateMetric("accuracy", 0.75)
	h.UpdateMetric("accuracy", 0.8)
	latest, err := h.LatestMetric("ema_accuracy")
	fmt.Println(h.MetricNames(), h.MetricValues("ema_accuracy"), latest, err, h.CurrentEpoch())
	h.Reset()
	_, err = h.LatestMetric("accuracy")
	fmt.Println(err)
	// Output:
	// [accuracy ema_accuracy] [0.75 0.8] 0.8 <nil> 1
	// no values have been recorded for the metric "accuracy"; recorded are []
}

// batchSeen is a custom event.
type batchSeen interface{ OnBatchSeen(rows int) error }

type rowCounter struct{ rows int }

func (c *rowCounter) OnBatchSeen(rows int) error { c.rows += rows; return nil }

func ExampleCallEvent() {
	count := new(rowCounter)
	o := quiet(count)
	o.Events = []reflect.Type{reflect.TypeFor[batchSeen]()}
	o.Methods.CalculateTrainBatchLoss = func(t *trainer, b pa.Batch) (pa.BatchOutput, error) {
		if err := pa.CallEvent(t.Run, "OnBatchSeen",
			func(h batchSeen) error { return h.OnBatchSeen(b.Rows) }); err != nil {
			return pa.BatchOutput{}, err
		}
		return t.CalculateTrainBatchLoss(b)
	}
	err := run(lineTrainer(o), train{})
	fmt.Println(count.rows, err)
	// Output: 16 <nil>
}

func ExampleRun_SaveCheckpoint() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	t := lineTrainer(quiet())
	if err := run(t, train{}); err != nil {
		log.Fatal(err)
	}
	path := filepath.Join(dir, "model.pt") // Python's Trainer.load_checkpoint reads it
	if err := t.SaveCheckpoint(path, pa.CheckpointOptions{Extra: map[string]any{"classes": []any{"cat",
		"dog"}}}); err != nil {
		log.Fatal(err)
	}
	c, err := lineTrainer(quiet()).LoadCheckpoint(path, pa.LoadOptions{})
	fmt.Println(strings.Join(c.Keys, " "), c.Extra["classes"], err)
	// Output: model_state_dict optimizer_state_dict classes [cat dog] <nil>
}

func ExampleModelFreezer() {
	model := nn.Sequential{nn.NewLinear(4, 4, nil), nn.NewBatchNorm1d(4, nil), nn.NewLinear(4, 2, nil)}
	freezer := pa.NewModelFreezer(model, false)
	if err := freezer.Freeze(0, -2, false); err != nil {
		log.Fatal(err)
	}
	for _, l := range freezer.Layers() {
		fmt.Println(l.Group, l.Frozen)
	}
	unfrozen, err := freezer.Unfreeze(-1, 0, true)
	fmt.Println(len(unfrozen[0]), len(freezer.TrainableParameters()), err)
	// Output:
	// 0 true
	// 1 false
	// 2 false
	// 2 6 <nil>
}
