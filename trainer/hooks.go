package trainer

import (
	"fmt"
	"reflect"
	"strings"
)

// Hooks lists the events of a run. A callback, one of [Options].Callbacks, is a value with any of
// these methods; it need not have them all. [New] refuses a value that has none of them. A method
// with another signature, such as one that returns nothing, is not called;
// trainertest.TestCallback finds such methods.
//
// The events occur in this order, which is that of Hugging Face's TrainerCallback:
//
//	InitEnd                                      on_init_end
//	TrainBegin                                   on_train_begin
//	  EpochBegin                                 on_epoch_begin
//	  AroundEpoch(                               around the steps: _run_train_epoch of pytorch-accelerated
//	    StepBegin                                on_step_begin
//	      BatchBegin                             before each forward pass: on_train_step_start of pytorch-accelerated
//	      (forward) AfterForward                 before its backward pass: on_train_step_end of pytorch-accelerated
//	      (backward) AfterBackward               after it: on_end_backward of PyMarlin
//	      SubstepEnd                             on_substep_end, between the micro-batches of a window
//	      (clip) BeforeUpdate                    on_pre_optimizer_step
//	      (optimizer step) AfterSchedule         the learning rate has moved
//	      AfterUpdate                            on_optimizer_step; GlobalStep does not count this update yet
//	    StepEnd                                  on_step_end; GlobalStep counts it
//	      BeforeLog, AfterLog                    on_log, if due
//	      EvalBegin, EvalStepBegin, EvalStep     on_prediction_step after each batch
//	      ... EvalEnd, AfterLog, AfterEval       on_log, on_evaluate, if due
//	      BeforeSeal, PushBegin, AfterSave       on_push_begin, if it is uploaded; on_save, if due
//	    )
//	  EpochEnd                                   on_epoch_end, then log and evaluate if due,
//	  EpochDone                                  on_training_run_epoch_end of pytorch-accelerated,
//	                                             on_end_train_epoch of PyMarlin, then save if due
//	AfterLog, TrainEnd                           on_log, on_train_end
//
//	EvalStep ..., AfterPredict                   on_prediction_step ..., on_predict, of Trainer.Predict
//
// semantics.Rules.Order may put the save before the log and the evaluation. Trainer.Evaluate calls
// EvalBegin to AfterEval. So does [Run.Evaluate], with which a hook can evaluate at any point, but
// without AfterLog and AfterEval.
//
// If a hook returns an error, the run ends and Fit returns the error as a [*HookError]. A
// [StopError] also ends the run immediately, but normally: Stopped, AfterLog and TrainEnd follow,
// and Fit returns no error.
type Hooks interface {
	InitEnd(r *Run) error
	TrainBegin(r *Run) error
	EpochBegin(r *Run) error
	// AroundEpoch wraps the training of an epoch, from before its first batch to after its last
	// step. The hook calls train to carry it out. An error that train returns has already ended the
	// run, and the hook must return it too. If a hook does not call train, the epoch has no steps.
	AroundEpoch(r *Run, train func() error) error
	StepBegin(r *Run) error
	// BatchBegin is called before the forward pass of every micro-batch.
	BatchBegin(r *Run) error
	// AfterForward is called between the forward and the backward pass of every micro-batch.
	// Run.BatchLoss and Run.Batch are its loss and the batch. The step must be a [SplitStep]. If
	// the hook returns a [StopError], the backward pass is left out.
	AfterForward(r *Run) error
	// AfterBackward is called after the backward pass of every micro-batch.
	AfterBackward(r *Run) error
	SubstepEnd(r *Run) error
	BeforeUpdate(r *Run) error
	// AfterSchedule is called with the learning rate of the next update when the schedule has
	// advanced.
	AfterSchedule(r *Run, rate float64) error
	AfterUpdate(r *Run) error
	StepEnd(r *Run) error
	// BeforeLog may change a row of the log, for example by adding a number, before the row is
	// stored and AfterLog is called. It does what an override of Trainer.log does in Python.
	// "epoch" and "step" are set after it.
	BeforeLog(r *Run, row Logs) error
	// AfterLog is called with each row of the log, under the names it has in trainer_state.json. It
	// must not change the row.
	AfterLog(r *Run, row Logs) error
	// EvalBegin is called before the first batch of a validation set.
	EvalBegin(r *Run) error
	// EvalStepBegin is called before each batch of an evaluation.
	EvalStepBegin(r *Run) error
	EvalStep(r *Run) error
	// EvalEnd is called with the numbers of a validation set, by their bare names, as soon as they
	// are computed. It is called for every evaluation, including those of Run.Evaluate and Predict.
	EvalEnd(r *Run, m Metrics) error
	// AfterEval is called with the numbers of an evaluation by their bare names: "loss",
	// "accuracy". With several validation sets it is called once for each, and Run.Evaluation is
	// the name of the set. The best evaluation is determined after all of them.
	AfterEval(r *Run, m Metrics) error
	// PushBegin is called before Options.Pusher uploads something.
	PushBegin(r *Run) error
	// BeforeSeal is called with the folder in which a checkpoint is being written, after everything
	// else has been written there. What a hook writes to it, such as a tokenizer, becomes part of
	// the checkpoint. An error makes the save fail. Only the main process calls it. With
	// Options.AsyncSave the step may still be writing its own files.
	BeforeSeal(r *Run, folder string) error
	// AfterSave is called with the folder of a checkpoint that has been written. With
	// Options.AsyncSave, PushBegin and AfterSave are called once the checkpoint is on the disk:
	// before StepEnd or a save of a later update, or before the end of the run. The state of r is
	// the one at that time.
	AfterSave(r *Run, checkpoint string) error
	EpochEnd(r *Run) error
	// EpochDone is called after the evaluation at the end of an epoch and before the save that
	// follows it.
	EpochDone(r *Run) error
	// Stopped is called with the error by which a hook stopped the run, a [StopError].
	Stopped(r *Run, reason error) error
	TrainEnd(r *Run) error
	// TrainFailed is called with the error that Fit will return, including an interruption.
	// TrainEnd is not called then.
	TrainFailed(r *Run, err error)
	// AfterPredict is called with the numbers of Trainer.Predict by their bare names.
	AfterPredict(r *Run, m Metrics) error
}

// StateSaver is implemented by a callback with state that must survive a resume, such as a counter.
// The state is kept in trainer_state.json under the name of the callback's type, or under the name
// that its method StateName() string returns. Callbacks with the same name are told apart by their
// order.
type StateSaver interface {
	MarshalState() ([]byte, error) // JSON
	UnmarshalState(state []byte) error
}

// One interface for each event.
type (
	initEndHook       interface{ InitEnd(*Run) error }
	trainBeginHook    interface{ TrainBegin(*Run) error }
	trainEndHook      interface{ TrainEnd(*Run) error }
	trainFailedHook   interface{ TrainFailed(*Run, error) }
	stoppedHook       interface{ Stopped(*Run, error) error }
	epochBeginHook    interface{ EpochBegin(*Run) error }
	epochEndHook      interface{ EpochEnd(*Run) error }
	epochDoneHook     interface{ EpochDone(*Run) error }
	stepBeginHook     interface{ StepBegin(*Run) error }
	batchBeginHook    interface{ BatchBegin(*Run) error }
	afterForwardHook  interface{ AfterForward(*Run) error }
	afterBackwardHook interface{ AfterBackward(*Run) error }
	substepEndHook    interface{ SubstepEnd(*Run) error }
	beforeUpdateHook  interface{ BeforeUpdate(*Run) error }
	afterScheduleHook interface{ AfterSchedule(*Run, float64) error }
	afterUpdateHook   interface{ AfterUpdate(*Run) error }
	stepEndHook       interface{ StepEnd(*Run) error }
	beforeLogHook     interface{ BeforeLog(*Run, Logs) error }
	afterLogHook      interface{ AfterLog(*Run, Logs) error }
	evalBeginHook     interface{ EvalBegin(*Run) error }
	evalStepBeginHook interface{ EvalStepBegin(*Run) error }
	evalStepHook      interface{ EvalStep(*Run) error }
	evalEndHook       interface{ EvalEnd(*Run, Metrics) error }
	afterEvalHook     interface{ AfterEval(*Run, Metrics) error }
	afterPredictHook  interface{ AfterPredict(*Run, Metrics) error }
	pushBeginHook     interface{ PushBegin(*Run) error }
	beforeSealHook    interface{ BeforeSeal(*Run, string) error }
	afterSaveHook     interface{ AfterSave(*Run, string) error }
	aroundEpochHook   interface {
		AroundEpoch(*Run, func() error) error
	}
)

// has reports whether a callback, or a step, has the methods of H.
func has[H any](v any) bool {
	_, ok := v.(H)
	return ok
}

// isCallback reports whether a value has the method of any event.
func isCallback(c any) bool {
	switch c.(type) {
	case initEndHook, trainBeginHook, trainEndHook, trainFailedHook, stoppedHook, epochBeginHook, epochEndHook,
		epochDoneHook, aroundEpochHook, stepBeginHook, batchBeginHook, afterForwardHook, afterBackwardHook,
		substepEndHook, beforeUpdateHook, afterScheduleHook, afterUpdateHook, stepEndHook, beforeLogHook, afterLogHook,
		evalBeginHook, evalStepBeginHook, evalStepHook, evalEndHook, afterEvalHook, afterPredictHook, pushBeginHook,
		beforeSealHook, afterSaveHook:
		return true
	}
	return false
}

// checkCallbacks refuses a value with no method that would be called.
func (o *Options) checkCallbacks() error {
	for i, c := range o.Callbacks {
		if isCallback(c) {
			continue
		}
		want := "a value with at least one method of trainer.Hooks, such as StepEnd(*trainer.Run) error"
		if t := reflect.TypeOf(c); t == nil {
			want = "a value with methods of trainer.Hooks"
		} else if t.Kind() != reflect.Pointer && isCallback(reflect.New(t).Interface()) {
			want = "&" + t.Name() + "{...}, since its methods have a pointer receiver"
		}
		return &OptionError{fmt.Sprintf("Callbacks[%d]", i), strings.Trim(fmt.Sprintf("%T", c), "<>"), want}
	}
	return nil
}

// call calls the method of an event on every callback that has it.
func call[H any](r *Run, callbacks []any, event string, f func(H) error) error {
	for _, c := range callbacks {
		h, ok := c.(H)
		if !ok {
			continue
		}
		if err := guard(func() error { return f(h) }); err != nil {
			if file, ok := err.(*metricsError); ok { //nolint:errorlint // a hook of somebody's that wraps one is named
				return &folderError{fmt.Errorf("trainer: after update %d: %w", r.GlobalStep, file)}
			}
			return &HookError{Hook: fmt.Sprintf("%T", h), Event: event, GlobalStep: r.GlobalStep, Err: err}
		}
	}
	return nil
}

// stateName returns the name of a callback's state: the name of its type without the package, or
// what its method StateName returns, such as the name of its counterpart in transformers.
func stateName(hook any) string {
	if n, ok := hook.(interface{ StateName() string }); ok {
		return n.StateName()
	}
	name := reflect.TypeOf(hook).String()
	return strings.TrimLeft(name[strings.LastIndexByte(name, '.')+1:], "*")
}
