package pytorchaccelerated_test

import (
	"fmt"
	"log"
	"path/filepath"

	pa "github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
	"github.com/gotrainer/gotrainer/torch"
)

// everyEvent prints each event of a run; a line that begins inside an epoch is indented.
type everyEvent struct{}

func begin(event string) error { fmt.Print("\n" + event); return nil }
func more(event string) error  { fmt.Print(", " + event); return nil }

func (everyEvent) OnInitEnd(*pa.Run) error                       { return begin("on_init_end") }
func (everyEvent) OnTrainingRunStart(*pa.Run) error              { return begin("on_training_run_start") }
func (everyEvent) OnTrainEpochStart(*pa.Run) error               { return begin("on_train_epoch_start") }
func (everyEvent) OnTrainStepStart(*pa.Run) error                { return begin("  on_train_step_start") }
func (everyEvent) OnTrainStepEnd(*pa.Run, pa.TrainStepEnd) error { return more("on_train_step_end") }
func (everyEvent) OnTrainEpochEnd(*pa.Run) error                 { return begin("on_train_epoch_end") }
func (everyEvent) OnEvalEpochStart(*pa.Run, pa.EvalEpoch) error  { return begin("on_eval_epoch_start") }
func (everyEvent) OnEvalStepStart(*pa.Run) error                 { return begin("  on_eval_step_start") }
func (everyEvent) OnEvalStepEnd(*pa.Run, pa.EvalStepEnd) error   { return more("on_eval_step_end") }
func (everyEvent) OnEvalEpochEnd(*pa.Run, pa.EvalEpoch) error    { return begin("on_eval_epoch_end") }
func (everyEvent) OnTrainingRunEpochEnd(*pa.Run) error           { return begin("on_training_run_epoch_end") }
func (everyEvent) OnTrainingRunEnd(*pa.Run) error                { return begin("on_training_run_end") }
func (everyEvent) OnCheckpointSaved(_ *pa.Run, path string, _ pa.Checkpoint) error {
	return more("save_checkpoint " + filepath.Base(path))
}

// The order of a run with SaveBestModel: two epochs of three batches in windows of two, so that
// each epoch ends with a short window. Callbacks are called for a batch before its backward pass. The
// updates are methods of the Trainer, which a program may override.
func ExampleTrainer_order() {
	dir, remove := temporary()
	defer remove()
	o := quiet(everyEvent{}, &pa.SaveBestModel{SavePath: filepath.Join(dir, "best_model.pt")})
	o.Methods = pa.Methods[pa.Sample, pa.Batch]{
		CalculateTrainBatchLoss: func(t *trainer, b pa.Batch) (pa.BatchOutput, error) {
			_ = more("calculate_train_batch_loss")
			return t.CalculateTrainBatchLoss(b) // super().calculate_train_batch_loss(batch)
		},
		BackwardStep: func(t *trainer, loss torch.Tensor) error {
			_ = more("backward_step")
			return t.BackwardStep(loss)
		},
		OptimizerStep: func(t *trainer) error {
			_ = more("optimizer_step")
			return t.OptimizerStep()
		},
		SchedulerStep: func(t *trainer) error {
			_ = more("scheduler_step")
			return t.SchedulerStep()
		},
	}
	t := lineTrainer(o)
	err := t.Train(ctx(), line(6), train{NumEpochs: 2, PerDeviceBatchSize: 2, GradientAccumulationSteps: 2,
		EvalDataset: line(2), CreateSchedulerFn: pa.Partial("StepLR", map[string]any{"step_size": 2})})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// on_init_end
	// on_training_run_start
	// on_train_epoch_start
	//   on_train_step_start, calculate_train_batch_loss, on_train_step_end, backward_step
	//   on_train_step_start, calculate_train_batch_loss, on_train_step_end, backward_step, optimizer_step, scheduler_step
	//   on_train_step_start, calculate_train_batch_loss, on_train_step_end, backward_step, optimizer_step, scheduler_step
	// on_train_epoch_end
	// on_eval_epoch_start
	//   on_eval_step_start, on_eval_step_end
	// on_eval_epoch_end
	// on_training_run_epoch_end, save_checkpoint best_model.pt
	// on_train_epoch_start
	//   on_train_step_start, calculate_train_batch_loss, on_train_step_end, backward_step
	//   on_train_step_start, calculate_train_batch_loss, on_train_step_end, backward_step, optimizer_step, scheduler_step
	//   on_train_step_start, calculate_train_batch_loss, on_train_step_end, backward_step, optimizer_step, scheduler_step
	// on_train_epoch_end
	// on_eval_epoch_start
	//   on_eval_step_start, on_eval_step_end
	// on_eval_epoch_end
	// on_training_run_epoch_end, save_checkpoint best_model.pt
	// on_training_run_end
}
