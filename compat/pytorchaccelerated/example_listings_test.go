package pytorchaccelerated_test

import (
	"fmt"
	"log"

	pa "github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// signs are numbers with their class: negative, zero, positive.
var signs = data.Slice[pa.Sample]{{Inputs: []float32{-1}, Class: 0}, {Inputs: []float32{0}, Class: 1},
	{Inputs: []float32{1}, Class: 2}}

// Accuracy, precision and recall in the run history: the guide's TrainerWithMetrics.
func ExampleMethods_metrics() {
	macro := metrics.F1{Average: metrics.Macro()}
	scores := metrics.All[int]{&metrics.Accuracy[int]{}, &metrics.Precision{F1: macro}, &metrics.Recall{F1: macro}}
	o := quiet()
	o.Methods = pa.Methods[pa.Sample, pa.Batch]{
		CalculateEvalBatchLoss: func(t *trainer, batch pa.Batch) (pa.BatchOutput, error) {
			out, err := t.CalculateEvalBatchLoss(batch) // super()
			if err == nil {
				preds := torch.Values[int64](out.ModelOutputs[0].ArgMax(-1, false))
				for i, class := range batch.Classes {
					scores.Add(int(preds[i]), int(class))
				}
			}
			return out, err
		},
		EvalEpochEnd: func(t *trainer) error {
			for name, value := range scores.Result() {
				t.History().UpdateMetric(name, value)
			}
			scores.Reset()
			return nil
		},
	}
	torch.ManualSeed(1)
	t, err := pa.New(nn.NewLinear(1, 3, nil), functional.CrossEntropy, optim.AdamW{LR: 0.1}, o)
	if err != nil {
		log.Fatal(err)
	}
	if err := t.Train(ctx(), signs, pa.TrainOptions[pa.Sample, pa.Batch]{NumEpochs: 100,
		EvalDataset: signs}); err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"accuracy", "precision", "recall"} {
		value, err := t.History().LatestMetric(name)
		fmt.Println(name, value, err)
	}
	// Output:
	// accuracy 1 <nil>
	// precision 1 <nil>
	// recall 1 <nil>
}

// A schedule of torch.optim.lr_scheduler under its name; its step is an update.
func ExamplePartial_stepLR() {
	createSchedulerFn := pa.Partial("StepLR", map[string]any{"step_size": 7, "gamma": 0.1})
	t := lineTrainer(quiet())
	err := run(t, train{NumEpochs: 2, CreateSchedulerFn: createSchedulerFn})
	fmt.Printf("%.2f after 8 updates, %v\n", t.LearningRate(), err)
	// Output: 0.01 after 8 updates, <nil>
}

// Placeholders stand for numbers that are known when training begins. As in PyTorch, the rate rises
// again after the last update, at the end of the cycle.
func ExamplePartial_oneCycleLR() {
	createSchedulerFn := pa.Partial("OneCycleLR", map[string]any{
		"max_lr":          0.1,
		"epochs":          pa.NumEpochs,
		"steps_per_epoch": pa.NumUpdateStepsPerEpoch,
	})
	t := lineTrainer(quiet(rates{}))
	err := run(t, train{CreateSchedulerFn: createSchedulerFn, NumEpochs: 2})
	fmt.Println(err)
	// Output: 0.0819 0.0972 0.0812 0.0556 0.0283 0.0077 0.0000 0.0077 <nil>
}

// The arguments of CosineLrScheduler.create_scheduler_fn are fields.
func ExampleCosineLR_cooldown() {
	err := run(lineTrainer(quiet(rates{})), train{
		NumEpochs: 4,
		CreateSchedulerFn: pa.CosineLR{
			NumWarmupEpochs:   1,
			WarmupStartingLR:  new(1e-6),
			NumCooldownEpochs: 1,
		}.Create,
	})
	fmt.Println(err)
	// Output: 0.0250 0.0500 0.0750 0.1000 0.0962 0.0854 0.0691 0.0500 0.0309 0.0146 0.0038 0.0000 0.0000 0.0000 0.0000 0.0000 <nil>
}
