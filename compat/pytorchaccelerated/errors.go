package pytorchaccelerated

import (
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/trainer"
)

// ErrNonFiniteLoss is the cause of the error that Train or Evaluate returns after [TerminateOnNaN]
// has seen a loss that is nan or infinite.
var ErrNonFiniteLoss = errors.New("the loss is not a finite number")

// ErrDuplicateCallback is the cause of the error that New returns for two callbacks of the same
// type.
var ErrDuplicateCallback = errors.New("two callbacks of one type")

// ErrNoMetric is the cause of the error of [RunHistory].LatestMetric if nothing has been recorded.
var ErrNoMetric = errors.New("no values have been recorded for the metric")

// StopTrainingError ends a run early without making it fail. If a hook returns it, the Trainer
// prints the reason, calls OnStopTrainingError and ends the run as usual.
type StopTrainingError struct{ Reason string }

func (e *StopTrainingError) Error() string { return e.Reason }

// As converts it to a trainer.StopError for the loop.
func (e *StopTrainingError) As(target any) bool {
	stop, ok := target.(*trainer.StopError)
	if ok {
		*stop = trainer.StopError(e.Reason)
	}
	return ok
}

// StopTraining returns a [StopTrainingError] for a hook to return: raise StopTrainingError(...).
func StopTraining(reason string) error { return &StopTrainingError{reason} }

// HookError says in which callback a run failed.
type HookError struct {
	Callback string // its type: "*pytorchaccelerated.SaveBestModel"
	Event    string // "OnTrainStepEnd"
	Err      error
}

func (e *HookError) Error() string {
	return fmt.Sprintf("pytorchaccelerated: %s of callback %s: %v", e.Event, e.Callback, e.Err)
}

func (e *HookError) Unwrap() error { return e.Err }

// OptionError says which argument of New, Train or Evaluate is wrong.
type OptionError struct {
	Field string // "NumEpochs"
	Value string // what was found
	Want  string // what was expected
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("pytorchaccelerated: %s is %s; want %s", e.Field, e.Value, e.Want)
}

// prefixed adds the name of the package to an error; nil stays nil.
func prefixed(err error) error {
	if err != nil {
		err = fmt.Errorf("pytorchaccelerated: %w", err)
	}
	return err
}

// refuse returns an OptionError if wrong is true.
func refuse(wrong bool, field string, value any, want string) error {
	if !wrong {
		return nil
	}
	return &OptionError{field, fmt.Sprint(value), want}
}
