package pymarlin_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gotrainer/gotrainer/compat/pymarlin"
	"github.com/gotrainer/gotrainer/torch"
)

// told is a module that prints its hooks and steps: one line per batch, and lines for the events
// around them.
type told struct{ *net }

func begin(event string, args ...any) error { fmt.Printf("\n"+event, args...); return nil }
func more(event string, args ...any) error  { fmt.Printf(", "+event, args...); return nil }

func (m told) OnBeginTrainEpoch(_, epoch int) error { return begin("on_begin_train_epoch %d", epoch) }
func (m told) TrainStep(step int, b batch, d torch.Device) (pymarlin.Outputs, error) {
	_ = begin("  train_step")
	return m.net.TrainStep(step, b, d)
}
func (m told) OnEndBackward(int, torch.Tensor) error { return more("on_end_backward") }
func (m told) OnEndTrainStep(step int, _ pymarlin.Collected) error {
	return more("on_end_train_step %d", step)
}
func (m told) ValStep(step int, b batch, d torch.Device) (pymarlin.Outputs, error) {
	_ = begin("  val_step")
	return m.net.ValStep(step, b, d)
}
func (m told) OnEndValEpoch(_ int, _ pymarlin.Collected, key string) error {
	return begin("on_end_val_epoch %s", key)
}
func (m told) OnEndTrainEpoch(_ int, c pymarlin.Collected) error {
	return begin("on_end_train_epoch with the outputs of %d batches", len(c.Values[0]))
}
func (m told) OnEndTrain(int) error { return begin("on_end_train") }

// toldCheckpointer prints what would be saved, and saves nothing.
type toldCheckpointer struct{}

func (toldCheckpointer) Save(_ pymarlin.Checkpoint, index int, _ bool) (string, error) {
	return "", begin("checkpointer.save %d", index)
}
func (toldCheckpointer) SaveModel(pymarlin.State, int) (string, error) {
	return "", begin("checkpointer.save_model")
}
func (toldCheckpointer) Load() (pymarlin.Checkpoint, error) { return pymarlin.Checkpoint{}, nil }

// The order of a run: two epochs of three batches in windows of two. Windows extend over the ends
// of epochs: the second update has a batch of each. The validation precedes on_end_train_epoch.
func ExampleTrainer_order() {
	o := options()
	o.Checkpointer = toldCheckpointer{}
	t, err := pymarlin.New(pymarlin.ModuleInterface[batch](told{newNet(6)}),
		quiet(pymarlin.TrainerArguments{Epochs: 2, TrainBatchSize: 4, GPUBatchSizeLimit: 2, ValBatchSize: 5}), o)
	if err != nil {
		log.Fatal(err)
	}
	if err := t.Train(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// on_begin_train_epoch 0
	//   train_step, on_end_backward
	//   train_step, on_end_backward, on_end_train_step 1
	//   train_step, on_end_backward
	//   val_step
	// on_end_val_epoch default
	// on_end_train_epoch with the outputs of 3 batches
	// checkpointer.save 0
	// on_begin_train_epoch 1
	//   train_step, on_end_backward, on_end_train_step 2
	//   train_step, on_end_backward
	//   train_step, on_end_backward, on_end_train_step 3
	//   val_step
	// on_end_val_epoch default
	// on_end_train_epoch with the outputs of 3 batches
	// checkpointer.save 1
	// checkpointer.save 1
	// checkpointer.save_model
	// on_end_train
}
