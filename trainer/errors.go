package trainer

import (
	"errors"
	"fmt"
)

// ErrChangedWhileSaved is the cause of the error of an asynchronous save that something other than
// the step has changed the weights of, between two updates, such as a hook. No checkpoint is made
// of it, and it is tried again after the next update, whatever Options.SaveFailure says.
var ErrChangedWhileSaved = errors.New("the state was changed while it was saved")

// ErrOldRun is the cause of the error with which Fit refuses an output folder that holds the
// checkpoints or the log of an earlier run although it was told neither to resume that run nor to
// overwrite it.
var ErrOldRun = errors.New("the folder holds an earlier run")

// ErrOtherRun is the cause of the error with which Fit refuses to resume from a checkpoint whose
// sizes, seed or, inside an epoch, order of samples are not those of the options.
var ErrOtherRun = errors.New("the checkpoint was made by a run with other sizes, another seed or another order")

// OptionError says which option is wrong. It is returned by [New] and by [Trainer.Fit].
type OptionError struct {
	Field string // of Options
	Value string // what it was
	Want  string // what would be right
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("trainer: Options.%s is %s: want %s", e.Field, e.Value, e.Want)
}

// wrong is the error of an option that has a value, where another would be right.
func wrong(field string, value any, want string, args ...any) error {
	return &OptionError{field, fmt.Sprint(value), fmt.Sprintf(want, args...)}
}

// StepError says at which point of a run the step, or the data it was to be given, failed.
type StepError struct {
	Op         string  // what was being done: "train on micro-batch 2 of 4", "update", "evaluate", "load a batch"
	GlobalStep int     // updates before it
	Epoch      float64 // where the run stood
	Err        error
}

func (e *StepError) Error() string {
	return fmt.Sprintf("trainer: %s after update %d (epoch %.4g): %v", e.Op, e.GlobalStep, e.Epoch, e.Err)
}

func (e *StepError) Unwrap() error { return e.Err }

// folderError is about the run's folder, Options.OutputDir, or a file in it.
type folderError struct{ error }

func (e *folderError) Unwrap() error { return e.error }

// RunFolder marks it for package run, which gives such an error the exit code of storage.
func (e *folderError) RunFolder() {}

// HookError says which hook ended a run.
type HookError struct {
	Hook       string // its type: "*callback.EarlyStopping"
	Event      string // the method: "AfterEval"
	GlobalStep int
	Err        error
}

func (e *HookError) Error() string {
	return fmt.Sprintf("trainer: hook %s.%s after update %d: %v", e.Hook, e.Event, e.GlobalStep, e.Err)
}

func (e *HookError) Unwrap() error { return e.Err }

// InterruptedError is what Fit returns when its context was cancelled. errors.Is finds the
// context's error in it, so errors.Is(err, context.Canceled) tells an interruption from a failure.
type InterruptedError struct {
	GlobalStep int
	Epoch      float64
	Checkpoint string // where the run was saved; empty if it was not
	Unsaved    string // why it was not saved, where it was not
	Err        error  // of the context, and its cause if that is another one
}

func (e *InterruptedError) Error() string {
	where := fmt.Sprintf("trainer: interrupted after update %d (epoch %.4g)", e.GlobalStep, e.Epoch)
	if e.Checkpoint == "" {
		return fmt.Sprintf("%s; not saved: %s: %v", where, e.Unsaved, e.Err)
	}
	return fmt.Sprintf("%s; saved in %s; to continue, run again with Options.ResumeFrom = trainer.Latest: %v", where,
		e.Checkpoint, e.Err)
}

func (e *InterruptedError) Unwrap() error { return e.Err }

// torchError is the marker of the one type of panic that Fit and Evaluate turn into an error:
// package torch's *Error. It is an interface so that the loop need not import what it does not
// know.
type torchError interface {
	error
	TorchError()
}

// guard runs body. It turns a panic with a torchError into an error and lets every other through.
func guard(body func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case torchError:
			err = p
		default:
			panic(p)
		}
	}()
	return body()
}

// StopError is what a hook returns to end the run here and now, well and with everything that
// belongs to its end: no update is finished first, as [Run.Stop] does. Its text is why.
//
//	return trainer.StopError("the loss is nan")
type StopError string

func (e StopError) Error() string { return string(e) }

// ErrOnlyModel is the cause of the error with which Fit refuses to resume from a checkpoint of
// Options.SaveOnlyModel.
var ErrOnlyModel = errors.New("the checkpoint holds only the weights (Options.SaveOnlyModel): start a new run from " +
	"them, or set semantics.Rules.ResumeFromWeights to continue with new moments")
