package pytorchaccelerated

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// The hooks. A callback is any value with at least one of these methods; [New] refuses one without
// any, so that a misspelt method does not go unnoticed. At each event, the methods of the Trainer,
// or their replacements in [Methods], are called before the callbacks, and callbacks in the order
// of the list:
//
//	OnInitEnd
//	training_run_start, OnTrainingRunStart
//	  train_epoch_start, OnTrainEpochStart
//	    OnTrainStepStart
//	    calculate_train_batch_loss, OnTrainStepEnd              the backward pass is still to come
//	    backward_step, clip, optimizer_step, scheduler_step, optimizer_zero_grad, OnUpdateEnd
//	  train_epoch_end, OnTrainEpochEnd
//	  eval_epoch_start, OnEvalEpochStart
//	    OnEvalStepStart, calculate_eval_batch_loss, OnEvalStepEnd
//	  eval_epoch_end, OnEvalEpochEnd
//	  training_run_epoch_end, OnTrainingRunEpochEnd
//	OnStopTrainingError                                          instead of the rest of the epochs
//	training_run_end, OnTrainingRunEnd
//
//	evaluation_run_start, OnEvaluationRunStart, an evaluation epoch, evaluation_run_end, OnEvaluationRunEnd
//
// A [StopTrainingError] from a hook within an epoch ends the run early; any other error makes
// Train fail with a [*HookError]. OnUpdateEnd is not in Python: it comes when an update is
// complete, which no other event does. Nor are OnCheckpointSaved and OnTrainingStateSaved, which
// come when a file is there.
type (
	InitEndHook          interface{ OnInitEnd(r *Run) error }
	TrainingRunStartHook interface{ OnTrainingRunStart(r *Run) error }
	TrainEpochStartHook  interface{ OnTrainEpochStart(r *Run) error }
	TrainStepStartHook   interface{ OnTrainStepStart(r *Run) error }
	TrainStepEndHook     interface {
		OnTrainStepEnd(r *Run, e TrainStepEnd) error
	}
	UpdateEndHook      interface{ OnUpdateEnd(r *Run) error }
	TrainEpochEndHook  interface{ OnTrainEpochEnd(r *Run) error }
	EvalEpochStartHook interface {
		OnEvalEpochStart(r *Run, e EvalEpoch) error
	}
	EvalStepStartHook interface{ OnEvalStepStart(r *Run) error }
	EvalStepEndHook   interface {
		OnEvalStepEnd(r *Run, e EvalStepEnd) error
	}
	EvalEpochEndHook interface {
		OnEvalEpochEnd(r *Run, e EvalEpoch) error
	}
	TrainingRunEpochEndHook interface{ OnTrainingRunEpochEnd(r *Run) error }
	TrainingRunEndHook      interface{ OnTrainingRunEnd(r *Run) error }
	EvaluationRunStartHook  interface{ OnEvaluationRunStart(r *Run) error }
	EvaluationRunEndHook    interface{ OnEvaluationRunEnd(r *Run) error }
	StopTrainingErrorHook   interface {
		OnStopTrainingError(r *Run, stop *StopTrainingError) error
	}
	// CheckpointSavedHook is called for each file written by SaveCheckpoint, at any event.
	CheckpointSavedHook interface {
		OnCheckpointSaved(r *Run, path string, c Checkpoint) error
	}
	// TrainingStateSavedHook is called for each folder written by SaveTrainingState, at any event.
	TrainingStateSavedHook interface {
		OnTrainingStateSaved(r *Run, dir string, m Metadata) error
	}
)

// StateSaver is a callback with a state, such as a count, that training states keep for resuming.
type StateSaver interface {
	MarshalState() ([]byte, error) // JSON
	UnmarshalState(state []byte) error
}

// BatchOutput is the result of calculate_train_batch_loss and calculate_eval_batch_loss: loss,
// model_outputs and batch_size, and anything else for callbacks. Its tensors live until the step
// ends; to keep one longer, call its Keep method.
type BatchOutput struct {
	Loss         torch.Tensor
	ModelOutputs []torch.Tensor
	BatchSize    int

	// NumItemsInBatch is the number of items by which the loss has already been divided, such as
	// tokens that are not padding. It matters only with several processes. Zero: not counted.
	NumItemsInBatch int64

	Extra map[string]any // additional keys
}

// TrainStepEnd is the argument of OnTrainStepEnd.
type TrainStepEnd struct {
	Step   int // in the epoch, from 0
	Batch  any // of the Trainer's batch type
	Output *BatchOutput
}

// EvalStepEnd is the argument of OnEvalStepEnd.
type EvalStepEnd struct {
	Batch  any // of the Trainer's batch type
	Output *BatchOutput
}

// EvalEpoch describes an evaluation epoch.
type EvalEpoch struct {
	Intermediate bool // within a training epoch
	Evaluation   bool // of Trainer.Evaluate, not of a training run
}

// CallEvent calls f with every callback of the run that has the hooks H, in order: call_event of
// the CallbackHandler, for the program's own events. name is used in errors. Callbacks without the
// methods are skipped.
//
//	type BatchAugmented interface{ OnBatchAugmented(r *pytorchaccelerated.Run) error }
//	err := pytorchaccelerated.CallEvent(r, "OnBatchAugmented", func(h BatchAugmented) error {
//		return h.OnBatchAugmented(r)
//	})
func CallEvent[H any](r *Run, name string, f func(H) error) error {
	for _, c := range r.callbacks {
		h, ok := c.(H)
		if !ok {
			continue
		}
		if err := f(h); err != nil {
			var stop *StopTrainingError
			if errors.As(err, &stop) {
				return err
			}
			return &HookError{fmt.Sprintf("%T", c), name, err}
		}
	}
	return nil
}

// event calls a hook that takes only the run, on every callback that implements it.
func event[H any](r *Run, hook func(H, *Run) error) error {
	return CallEvent(r, reflect.TypeFor[H]().Method(0).Name, func(h H) error { return hook(h, r) })
}

// eventWith calls a hook that takes a further argument.
func eventWith[H, E any](r *Run, hook func(H, *Run, E) error, e E) error {
	return event(r, func(h H, r *Run) error { return hook(h, r, e) })
}

// hookTypes lists the hooks, to find callbacks without any.
var hookTypes = []reflect.Type{
	reflect.TypeFor[InitEndHook](), reflect.TypeFor[TrainingRunStartHook](), reflect.TypeFor[TrainEpochStartHook](),
	reflect.TypeFor[TrainStepStartHook](), reflect.TypeFor[TrainStepEndHook](), reflect.TypeFor[UpdateEndHook](),
	reflect.TypeFor[TrainEpochEndHook](), reflect.TypeFor[EvalEpochStartHook](), reflect.TypeFor[EvalStepStartHook](),
	reflect.TypeFor[EvalStepEndHook](), reflect.TypeFor[EvalEpochEndHook](), reflect.TypeFor[TrainingRunEpochEndHook](),
	reflect.TypeFor[TrainingRunEndHook](), reflect.TypeFor[EvaluationRunStartHook](),
	reflect.TypeFor[EvaluationRunEndHook](), reflect.TypeFor[StopTrainingErrorHook](),
	reflect.TypeFor[CheckpointSavedHook](), reflect.TypeFor[TrainingStateSavedHook](),
}

// callback returns the callback of a type, or nil if there is none; there is at most one.
func callback[C any](r *Run) (none C) {
	for _, c := range r.callbacks {
		if found, ok := c.(C); ok {
			return found
		}
	}
	return none
}

// checkCallbacks refuses callbacks that implement neither a hook of this package nor one of events,
// and two callbacks of one type.
func checkCallbacks(callbacks []any, events []reflect.Type) error {
	var seen []reflect.Type
	for i, c := range callbacks {
		field := fmt.Sprintf("Callbacks[%d]", i)
		if c == nil {
			return refuse(true, field, "nil", "a callback")
		}
		t := reflect.TypeOf(c)
		if !hasHook(t, events) {
			want := "a value with a method of the hooks in this package, such as OnTrainEpochEnd(*Run) error"
			if t.Kind() != reflect.Pointer && hasHook(reflect.PointerTo(t), events) {
				want += "; its methods have a pointer receiver, so give &" + t.Name() + "{...}"
			}
			return refuse(true, field, t, want)
		}
		if slices.Contains(seen, t) {
			return fmt.Errorf("pytorchaccelerated: %s is a second %s: %w; the list so far is %v", field, t,
				ErrDuplicateCallback, seen)
		}
		seen = append(seen, t)
	}
	return nil
}

func hasHook(t reflect.Type, events []reflect.Type) bool {
	return slices.ContainsFunc(slices.Concat(hookTypes, events), t.Implements)
}
