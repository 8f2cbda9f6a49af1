package trainer

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/gotrainer/gotrainer/checkpoint"
)

// ProcessingClass turns data into the inputs of a model, as a tokenizer or an image processor does.
// It is saved beside the model; see Options.ProcessingClass.
type ProcessingClass interface {
	Save(dir string) error
}

// processing writes Options.ProcessingClass into each checkpoint.
type processing struct{ class ProcessingClass }

func (p *processing) BeforeSeal(_ *Run, folder string) error {
	if err := p.class.Save(folder); err != nil {
		return fmt.Errorf("Options.ProcessingClass %T: %w", p.class, err)
	}
	return nil
}

// SaveModel writes the weights, the files that the step adds to them, such as config.json, and
// Options.ProcessingClass to the folder dir, and creates dir if necessary. It is Hugging Face's
// save_model. With several processes, the main one writes. If each process has only a part of the
// model (About.Sharded), all must call SaveModel.
func (t *core) SaveModel(dir string) error {
	unlock, err := t.lock()
	if err != nil {
		return err
	}
	defer unlock()
	class, can, main := t.options.ProcessingClass, t.step.About(), t.options.Process.Main()
	switch {
	case !main && !can.Sharded:
		return nil
	case !can.Saves:
		return cannot(t.step.given, "Trainer.SaveModel is called", "be saved", "Saves", remedySaves)
	}
	if main {
		err = os.MkdirAll(dir, 0o777)
	}
	// The step is called even after an error: the other processes may be waiting for this one in
	// Save.
	err = cmp.Or(err, guard(func() error { return t.step.Save(dir, SaveOptions{WeightsOnly: true}) }))
	if err == nil && main && class != nil {
		err = class.Save(dir)
	}
	if err != nil {
		return fmt.Errorf("trainer: SaveModel: %w", err)
	}
	return nil
}

// UploadStarter is a [Pusher] that is called before the first update of a run, so that a wrong name
// or a missing token is noticed at once. An error from it ends the run.
// [github.com/gotrainer/gotrainer/hub.Pusher] is one.
type UploadStarter interface {
	Start(ctx context.Context, run checkpoint.UploadRun) error
}

// start calls the Start of the pusher, if it has one, and makes the queue of uploads.
func (u *uploads) start() error {
	if u.o.Pusher == nil || !u.o.Process.Main() {
		return nil
	}
	ctx, stop := u.either()
	if p, ok := u.o.Pusher.(UploadStarter); ok {
		run := checkpoint.UploadRun{OutputDir: u.run.Info.OutputDir, Hyperparameters: u.hyperparameters()}
		if err := p.Start(ctx, run); err != nil {
			stop()
			return fmt.Errorf("trainer: Options.Pusher: %w", err)
		}
	}
	u.queue = &uploadQueue{ctx: ctx, stop: stop, pusher: u.o.Pusher}
	return nil
}

// hyperparameters returns those in Hugging Face's model card, in its order.
func (s *session) hyperparameters() []checkpoint.Hyperparameter {
	o := s.o
	list := []checkpoint.Hyperparameter{{Name: "learning_rate", Value: o.LearningRate},
		{Name: "train_batch_size", Value: o.BatchSize}, {Name: "eval_batch_size", Value: o.EvalBatchSize},
		{Name: "seed", Value: int64(o.Seed)}}
	add := func(name string, value any) {
		list = append(list, checkpoint.Hyperparameter{Name: name, Value: value})
	}
	if o.Process.World > 1 {
		add("num_devices", o.Process.World)
	}
	if o.Accumulate > 1 {
		add("gradient_accumulation_steps", o.Accumulate)
	}
	if total := o.BatchSize * o.Accumulate * o.Process.World; total != o.BatchSize {
		add("total_train_batch_size", total)
	}
	add("lr_scheduler_type", scheduleText(o))
	if o.MaxSteps > 0 {
		add("training_steps", o.MaxSteps)
	} else {
		add("num_epochs", o.Epochs)
	}
	return list
}
