package trainer

import (
	"fmt"
	"reflect"
	"strings"
)

// The hooks. A callback is any value that implements at least one of them; [New] refuses one that
// implements none, so a misspelt method does not pass unnoticed. They are called in the order
// below, which is that of Hugging Face's TrainerCallback:
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
//	      PushBegin, AfterSave                   on_push_begin, if it is uploaded; on_save, if due
//	    )
//	  EpochEnd                                   on_epoch_end, then log and evaluate if due,
//	  EpochDone                                  on_training_run_epoch_end of pytorch-accelerated,
//	                                             on_end_train_epoch of PyMarlin, then save if due
//	AfterLog, TrainEnd                           on_log, on_train_end
//
//	EvalStep ..., AfterPredict                   on_prediction_step ..., on_predict, of Trainer.Predict
//
// semantics.Rules.Order may put the save before the log and the evaluation. Trainer.Evaluate calls
// EvalBegin to AfterEval; so does [Run.Evaluate], by which a hook evaluates in the middle of
// something else, without AfterLog and AfterEval.
//
// An error ends the run and is returned by Fit as a [*HookError], unless it is a [StopError]: then
// the run ends here and now, but well: StopHook, AfterLog and TrainEnd follow, and Fit returns no
// error.
type (
	InitEndHook      interface{ InitEnd(r *Run) error }
	TrainBeginHook   interface{ TrainBegin(r *Run) error }
	TrainEndHook     interface{ TrainEnd(r *Run) error }
	EpochBeginHook   interface{ EpochBegin(r *Run) error }
	EpochEndHook     interface{ EpochEnd(r *Run) error }
	StepBeginHook    interface{ StepBegin(r *Run) error }
	SubstepEndHook   interface{ SubstepEnd(r *Run) error }
	BeforeUpdateHook interface{ BeforeUpdate(r *Run) error }
	AfterUpdateHook  interface{ AfterUpdate(r *Run) error }
	StepEndHook      interface{ StepEnd(r *Run) error }
	// AroundEpochHook is called with the training of an epoch, from before its first batch to
	// behind its last step: train carries it out. What train returns has ended the run already; the
	// hook returns it too. An epoch whose hook does not call train has no steps.
	AroundEpochHook interface {
		AroundEpoch(r *Run, train func() error) error
	}
	EvalStepHook interface{ EvalStep(r *Run) error }
	// BatchBeginHook is called before the forward pass of every micro-batch.
	BatchBeginHook interface{ BatchBegin(r *Run) error }
	// ForwardHook is called between forward and backward of every micro-batch; Run.BatchLoss and
	// Run.Batch are those of it. The step must be a [SplitStep]. A [StopError] from here leaves out
	// the backward pass.
	ForwardHook interface{ AfterForward(r *Run) error }
	// BackwardHook is called after the backward pass of every micro-batch.
	BackwardHook interface{ AfterBackward(r *Run) error }
	// ScheduleHook is told the learning rate of the next update when the schedule has moved on.
	ScheduleHook interface {
		AfterSchedule(r *Run, rate float64) error
	}
	// EpochDoneHook is called when the evaluation that belongs to the end of an epoch is over, and
	// before a save that comes behind it.
	EpochDoneHook interface{ EpochDone(r *Run) error }
	// StopHook is told the error by which a hook has stopped the run: a [StopError].
	StopHook interface {
		Stopped(r *Run, reason error) error
	}
	// EvalBeginHook is called before the first batch of a validation set.
	EvalBeginHook interface{ EvalBegin(r *Run) error }
	// EvalStepBeginHook is called before each batch of an evaluation.
	EvalStepBeginHook interface{ EvalStepBegin(r *Run) error }
	// EvalEndHook is told the numbers of a validation set by their bare names as soon as they are
	// there, of every evaluation: Run.Evaluate's and Predict's too.
	EvalEndHook interface {
		EvalEnd(r *Run, m Metrics) error
	}
	// EvalHook is told the numbers of an evaluation by their bare names: "loss", "accuracy". Of
	// several validation sets it is called for each, and Run.Evaluation says which it is. The best
	// evaluation is determined after all of them.
	EvalHook interface {
		AfterEval(r *Run, m Metrics) error
	}
	// PredictHook is told the numbers of Trainer.Predict by their bare names.
	PredictHook interface {
		AfterPredict(r *Run, m Metrics) error
	}
	// PushBeginHook is called before something is uploaded by Options.Pusher.
	PushBeginHook interface{ PushBegin(r *Run) error }
	// SaveHook is told the folder of a checkpoint that was written.
	SaveHook interface {
		AfterSave(r *Run, checkpoint string) error
	}
	// BeforeLogHook may change a row of the log, such as add a number to it, before it is kept and
	// AfterLog is called: the place of an override of Trainer.log in Python. "epoch" and "step" are
	// set after it.
	BeforeLogHook interface {
		BeforeLog(r *Run, row Logs) error
	}
	// LogHook is told each row of the log, under the names it has in trainer_state.json. Rows must
	// not be changed.
	LogHook interface {
		AfterLog(r *Run, row Logs) error
	}
	// FailHook is told the error with which Fit will return, an interruption too; TrainEnd is not
	// called then.
	FailHook interface {
		TrainFailed(r *Run, err error)
	}
)

// StateSaver is implemented by a hook whose state must survive a resume, such as a count. The state
// is kept in trainer_state.json under the name of the hook's type; hooks of one type are told apart
// by their order.
type StateSaver interface {
	MarshalState() ([]byte, error) // JSON
	UnmarshalState(state []byte) error
}

// hooks are callbacks sorted by what they listen to.
type hooks struct {
	all           []any
	initEnd       []InitEndHook
	trainBegin    []TrainBeginHook
	trainEnd      []TrainEndHook
	epochBegin    []EpochBeginHook
	epochEnd      []EpochEndHook
	aroundEpoch   []AroundEpochHook
	stepBegin     []StepBeginHook
	substepEnd    []SubstepEndHook
	beforeUpdate  []BeforeUpdateHook
	afterUpdate   []AfterUpdateHook
	stepEnd       []StepEndHook
	evalStep      []EvalStepHook
	batchBegin    []BatchBeginHook
	forward       []ForwardHook
	backward      []BackwardHook
	schedule      []ScheduleHook
	epochDone     []EpochDoneHook
	stop          []StopHook
	evalBegin     []EvalBeginHook
	evalStepBegin []EvalStepBeginHook
	evalEnd       []EvalEndHook
	eval          []EvalHook
	predict       []PredictHook
	pushBegin     []PushBeginHook
	save          []SaveHook
	beforeLog     []BeforeLogHook
	log           []LogHook
	fail          []FailHook
}

func sortHooks(callbacks []any) (*hooks, error) {
	h := &hooks{all: callbacks}
	for i, c := range callbacks {
		if c == nil {
			return nil, &OptionError{fmt.Sprintf("Callbacks[%d]", i), "nil", "a hook"}
		}
		known := add(&h.initEnd, c) + add(&h.trainBegin, c) + add(&h.trainEnd, c) + add(&h.epochBegin,
			c) + add(&h.epochEnd, c) +
			add(&h.stepBegin, c) + add(&h.substepEnd, c) + add(&h.beforeUpdate, c) + add(&h.afterUpdate,
			c) + add(&h.stepEnd, c) +
			add(&h.evalStep, c) + add(&h.eval, c) + add(&h.predict, c) + add(&h.pushBegin, c) + add(&h.save,
			c) + add(&h.beforeLog, c) + add(&h.log, c) + add(&h.fail, c) +
			add(&h.batchBegin, c) + add(&h.forward, c) + add(&h.backward, c) + add(&h.schedule, c) + add(&h.epochDone,
			c) + add(&h.stop, c) +
			add(&h.evalBegin, c) + add(&h.evalStepBegin, c) + add(&h.evalEnd, c) + add(&h.aroundEpoch, c)
		if known == 0 {
			return nil, &OptionError{fmt.Sprintf("Callbacks[%d]", i), reflect.TypeOf(c).String(),
				"a value with at least one method of the hooks in package trainer, such as " +
					"StepEnd(*trainer.Run) error" + pointerHint(c)}
		}
	}
	return h, nil
}

// pointerHint helps with the most common reason why a callback has no hooks: its methods are on the
// pointer.
func pointerHint(c any) string {
	t := reflect.TypeOf(c)
	if t.Kind() == reflect.Pointer {
		return ""
	}
	if _, err := sortHooks([]any{reflect.New(t).Interface()}); err != nil {
		return ""
	}
	return "; its methods have a pointer receiver, so give &" + t.Name() + "{...}"
}

func add[H any](list *[]H, c any) int {
	h, ok := c.(H)
	if !ok {
		return 0
	}
	*list = append(*list, h)
	return 1
}

// call calls one method of every hook that has it. event names it in an error.
func call[H any](r *Run, list []H, event string, f func(H) error) error {
	for _, h := range list {
		if err := f(h); err != nil {
			if file, ok := err.(*metricsError); ok { //nolint:errorlint // a hook of somebody's that wraps one is named
				return fmt.Errorf("trainer: after update %d: %w", r.GlobalStep, file)
			}
			return &HookError{Hook: fmt.Sprintf("%T", h), Event: event, GlobalStep: r.GlobalStep, Err: err}
		}
	}
	return nil
}

// StateNamer is implemented by a [StateSaver] whose state has another name than its type, such as
// that of its counterpart in transformers.
type StateNamer interface{ StateName() string }

// stateName is the name of a hook's type without its package.
func stateName(hook any) string {
	if n, ok := hook.(StateNamer); ok {
		return n.StateName()
	}
	name := reflect.TypeOf(hook).String()
	return strings.TrimLeft(name[strings.LastIndexByte(name, '.')+1:], "*")
}
