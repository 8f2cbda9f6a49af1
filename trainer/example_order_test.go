package trainer_test

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// The examples of this file print the events of one run under the names of the trainer whose rules
// it follows: two epochs of three batches, windows of two batches, so that each epoch has a short
// tail, and an evaluation and a checkpoint after each epoch. [Example_events] has Hugging Face's.

// story prints events: a line for each batch, and for what is around the batches. An update is
// followed by its number.
type story struct{}

func (story) add(event string, args ...any) error {
	fmt.Printf(", "+event, args...)
	return nil
}

// begin starts a line; its indentation shows what belongs to an epoch.
func (story) begin(event string) error {
	fmt.Print("\n" + event)
	return nil
}

// tell runs a training run under the rules and prints its events.
func tell(rules semantics.Rules, events any) {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	t, err := trainer.New[int, []int](new(splitStep), trainer.Options{
		OutputDir: dir, Epochs: 2, BatchSize: 1, Accumulate: 2, Order: data.Sequential{}, Eval: trainer.Every(1,
			trainer.Epoch), Save: trainer.Every(1, trainer.Epoch),
		Log: trainer.Every(1, trainer.Epoch), Semantics: rules, Callbacks: []any{events}, Progress: io.Discard,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := t.Fit(context.Background(), trainertest.Samples(3), trainertest.Samples(1)); err != nil {
		fmt.Println(err)
	}
}

// hezarEvents are the methods of Hezar's Trainer, which has no callbacks: one overrides them.
type hezarEvents struct{ story }

func (e hezarEvents) EpochBegin(*trainer.Run) error { return e.begin("inner_training_loop") }
func (e hezarEvents) BatchBegin(*trainer.Run) error {
	return e.begin("  prepare_input_batch, training_step, optimization_step")
}
func (e hezarEvents) AfterUpdate(r *trainer.Run) error {
	return e.add("(optimizer.step %d)", r.Updates+1)
}
func (e hezarEvents) EvalBegin(*trainer.Run) error { return e.begin("evaluate") }
func (e hezarEvents) EvalStepBegin(*trainer.Run) error {
	return e.begin("  prepare_input_batch, evaluation_step")
}
func (e hezarEvents) EpochDone(*trainer.Run) error { return e.begin("log") }
func (e hezarEvents) AfterSave(*trainer.Run, string) error {
	return e.begin("save")
}

// Hezar saves before it evaluates, and a step is a batch.
func Example_eventsHezar() {
	tell(semantics.Hezar, hezarEvents{})
	// Output:
	// inner_training_loop
	//   prepare_input_batch, training_step, optimization_step
	//   prepare_input_batch, training_step, optimization_step, (optimizer.step 1)
	//   prepare_input_batch, training_step, optimization_step, (optimizer.step 2)
	// save
	// evaluate
	//   prepare_input_batch, evaluation_step
	// log
	// inner_training_loop
	//   prepare_input_batch, training_step, optimization_step
	//   prepare_input_batch, training_step, optimization_step, (optimizer.step 3)
	//   prepare_input_batch, training_step, optimization_step, (optimizer.step 4)
	// save
	// evaluate
	//   prepare_input_batch, evaluation_step
	// log
}

// paStory are the callbacks of pytorch-accelerated, and between them the methods of its Trainer
// that move the weights.
type paStory struct{ story }

func (e paStory) TrainBegin(*trainer.Run) error        { return e.begin("on_training_run_start") }
func (e paStory) EpochBegin(*trainer.Run) error        { return e.begin("on_train_epoch_start") }
func (e paStory) BatchBegin(*trainer.Run) error        { return e.begin("  on_train_step_start") }
func (e paStory) AfterForward(*trainer.Run) error      { return e.add("on_train_step_end") }
func (e paStory) AfterBackward(*trainer.Run) error     { return e.add("backward_step") }
func (e paStory) AfterUpdate(r *trainer.Run) error     { return e.add("optimizer_step %d", r.Updates+1) }
func (e paStory) EpochEnd(*trainer.Run) error          { return e.begin("on_train_epoch_end") }
func (e paStory) EvalBegin(*trainer.Run) error         { return e.begin("on_eval_epoch_start") }
func (e paStory) EvalStepBegin(*trainer.Run) error     { return e.begin("  on_eval_step_start") }
func (e paStory) EvalStep(*trainer.Run) error          { return e.add("on_eval_step_end") }
func (e paStory) EpochDone(*trainer.Run) error         { return e.begin("on_training_run_epoch_end") }
func (e paStory) TrainEnd(*trainer.Run) error          { return e.begin("on_training_run_end") }
func (e paStory) AfterSave(*trainer.Run, string) error { return e.begin("save_checkpoint") }
func (e paStory) EvalEnd(*trainer.Run, trainer.Metrics) error {
	return e.begin("on_eval_epoch_end")
}

// pytorch-accelerated: on_train_step_end comes before the backward pass.
func Example_eventsPytorchAccelerated() {
	tell(semantics.PytorchAccelerated, paStory{})
	// Output:
	// on_training_run_start
	// on_train_epoch_start
	//   on_train_step_start, on_train_step_end, backward_step
	//   on_train_step_start, on_train_step_end, backward_step, optimizer_step 1
	//   on_train_step_start, on_train_step_end, backward_step, optimizer_step 2
	// on_train_epoch_end
	// on_eval_epoch_start
	//   on_eval_step_start, on_eval_step_end
	// on_eval_epoch_end
	// on_training_run_epoch_end
	// save_checkpoint
	// on_train_epoch_start
	//   on_train_step_start, on_train_step_end, backward_step
	//   on_train_step_start, on_train_step_end, backward_step, optimizer_step 3
	//   on_train_step_start, on_train_step_end, backward_step, optimizer_step 4
	// on_train_epoch_end
	// on_eval_epoch_start
	//   on_eval_step_start, on_eval_step_end
	// on_eval_epoch_end
	// on_training_run_epoch_end
	// save_checkpoint
	// on_training_run_end
}

// pymarlinEvents are the hooks of PyMarlin's ModuleInterface, with its steps.
type pymarlinEvents struct{ story }

func (e pymarlinEvents) EpochBegin(*trainer.Run) error { return e.begin("on_begin_train_epoch") }
func (e pymarlinEvents) BatchBegin(*trainer.Run) error { return e.begin("  train_step") }
func (e pymarlinEvents) AfterBackward(*trainer.Run) error {
	return e.add("on_end_backward")
}
func (e pymarlinEvents) StepEnd(r *trainer.Run) error {
	return e.add("on_end_train_step %d", r.GlobalStep)
}
func (e pymarlinEvents) EvalStepBegin(*trainer.Run) error {
	return e.begin("  val_step")
}
func (e pymarlinEvents) EvalEnd(*trainer.Run, trainer.Metrics) error {
	return e.begin("on_end_val_epoch")
}
func (e pymarlinEvents) EpochDone(*trainer.Run) error         { return e.begin("on_end_train_epoch") }
func (e pymarlinEvents) AfterSave(*trainer.Run, string) error { return e.begin("checkpointer.save") }
func (e pymarlinEvents) TrainEnd(*trainer.Run) error          { return e.begin("on_end_train") }

// PyMarlin: windows run over the ends of epochs, so that the second update has a batch of each.
func Example_eventsPyMarlin() {
	tell(semantics.PyMarlin, pymarlinEvents{})
	// Output:
	// on_begin_train_epoch
	//   train_step, on_end_backward
	//   train_step, on_end_backward, on_end_train_step 1
	//   train_step, on_end_backward
	//   val_step
	// on_end_val_epoch
	// on_end_train_epoch
	// checkpointer.save
	// on_begin_train_epoch
	//   train_step, on_end_backward, on_end_train_step 2
	//   train_step, on_end_backward
	//   train_step, on_end_backward, on_end_train_step 3
	//   val_step
	// on_end_val_epoch
	// on_end_train_epoch
	// checkpointer.save
	// on_end_train
}
