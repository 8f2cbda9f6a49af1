package trainer

import (
	"errors"
	"fmt"
)

// ErrChangedWhileSaved is the cause of an asynchronous save's error if something other than the
// step, such as a hook, changed the weights between two updates while they were being saved. No
// checkpoint is made. The save is tried again after the next update, whatever Options.SaveFailure
// says.
var ErrChangedWhileSaved = errors.New("the state was changed while it was saved")

// ErrOldRun is the cause of Fit's error if the output folder holds the checkpoints or the log of an
// earlier run, and the options say neither to resume that run nor to overwrite it.
var ErrOldRun = errors.New("the folder holds an earlier run")

// ErrOtherRun is the cause of Fit's error if the checkpoint to resume from was made with other
// sizes, another seed or, inside an epoch, another order of samples than the options say. The error
// for a checkpoint that the step cannot load, such as that of another model or optimizer, is one
// too (errors.Is).
var ErrOtherRun = errors.New("the checkpoint was made by a run with other sizes, another seed or another order")

// unlike is the error for a checkpoint that the step cannot load.
type unlike struct{ error }

func (e *unlike) Unwrap() error { return e.error }

// Is makes it an [ErrOtherRun].
func (e *unlike) Is(target error) bool { return target == ErrOtherRun }

// OptionError says which option is wrong. It is returned by [New] and by [Trainer.Fit].
type OptionError struct {
	Field string // the field of Options
	Value string // the value it had
	Want  string // what would be right
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("trainer: Options.%s is %s: want %s", e.Field, e.Value, e.Want)
}

// wrong returns the error for an option whose value is not allowed.
func wrong(field string, value any, want string, args ...any) error {
	return &OptionError{field, fmt.Sprint(value), fmt.Sprintf(want, args...)}
}

// refusedOptions is an error about options that [New] or Fit refuses. Package run gives it the exit
// code of a configuration that is wrong, as it does an [*OptionError].
type refusedOptions struct{ error }

func (e *refusedOptions) Unwrap() error { return e.error }

// ExitCode is run.Configuration.
func (*refusedOptions) ExitCode() int { return 2 }

// StepError says at which point of a run the step failed, or the loading of its data.
type StepError struct {
	Op         string  // what was being done: "train on micro-batch 2 of 4", "update", "evaluate", "load a batch"
	GlobalStep int     // updates before the failure
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

// RunFolder marks the error for package run, which gives it the exit code for storage.
func (e *folderError) RunFolder() {}

// HookError says which hook ended a run.
type HookError struct {
	Hook       string // type of the hook: "*callback.EarlyStopping"
	Event      string // method that failed: "AfterEval"
	GlobalStep int
	Err        error
}

func (e *HookError) Error() string {
	return fmt.Sprintf("trainer: hook %s.%s after update %d: %v", e.Hook, e.Event, e.GlobalStep, e.Err)
}

func (e *HookError) Unwrap() error { return e.Err }

// InterruptedError is what Fit returns if its context was cancelled. It wraps the context's error,
// so errors.Is(err, context.Canceled) tells an interruption from a failure.
type InterruptedError struct {
	GlobalStep int
	Epoch      float64
	Checkpoint string // where the run was saved; empty if it was not
	Unsaved    string // why the run was not saved, if it was not
	Err        error  // the context's error, and its cause if that is a different error
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

// torchError is the one type of panic that Fit and Evaluate turn into an error: package torch's
// *Error. It is an interface because the loop must not import package torch.
type torchError interface {
	error
	TorchError()
}

// guard runs body. It turns a panic with a torchError into an error and does not recover from any
// other.
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

// StopError is what a hook returns to end the run immediately but normally, with everything that
// belongs to the end of a run. Unlike with [Run.Stop], the current update is not finished first.
// Its text is the reason.
//
//	return trainer.StopError("the loss is nan")
type StopError string

func (e StopError) Error() string { return string(e) }

// ErrOnlyModel is the cause of Fit's error if the checkpoint to resume from was written with
// Options.SaveOnlyModel.
var ErrOnlyModel = errors.New("the checkpoint holds only the weights (Options.SaveOnlyModel): start a new run from " +
	"them, or set semantics.Rules.ResumeFromWeights to continue with new moments")
