// Package semantics says where trainers differ, as data. Two trainers that look alike count, divide, log and resume in
// slightly different ways; each such difference is a named switch of [Rules], and a known trainer is a set of switches:
//
//	trainer.Options{Semantics: semantics.HuggingFace} // transformers 5.17, its defects included
//	trainer.Options{}                                 // semantics.Default: the same loop with those defects mended
//
// The loop reads the switches and never asks which preset it has. The zero value of every switch is the mended
// behaviour, so the zero Rules are [Default]. docs/semantics.md lists each switch with its source and the recorded run that shows it.
package semantics

// Rules are the switches. To change one of a preset, copy it: r := semantics.HuggingFace; r.FilterNonFiniteLoss = false.
type Rules struct {
	// Name is printed in the header of a run; it decides nothing.
	Name string

	// Divisor is what a mean loss is divided by before backward.
	Divisor Divisor

	// UndividedWithItems drops the division wherever the step counts items (trainer.ItemCounter), whether or not the loss then uses
	// the count. A model that is asked for the count and ignores it gets gradients that are too large by the length of the window.
	UndividedWithItems bool

	// StreamRestLeaks gives the last micro-batches of a pass over a stream no update if they do not fill a window: their gradients stay and leak
	// into the first update of the next pass. Otherwise they are an update of their own, as at the end of an epoch.
	StreamRestLeaks bool

	// StreamEpochByPlan counts the epoch of a stream as the pass plus its batches over those of the whole run, so that 0.4 is followed
	// by 1.1. Otherwise a pass that has ended counts 1, and further ones are measured by it.
	StreamEpochByPlan bool

	// StopInsideWindow lets a stop that a hook asks for between two micro-batches take effect at once: the gradients gathered
	// so far are neither used nor cleared. Otherwise the update is finished first.
	StopInsideWindow bool

	// SeedOnce starts the random numbers when the trainer is made and not again when it is fitted, so an evaluation before the first Fit, or
	// a first Fit before a second, changes what the next draws. Otherwise every Fit begins with the seed.
	SeedOnce bool

	// ScheduleOnSkip moves the learning rate on also when loss scaling skipped an update.
	ScheduleOnSkip bool

	// LogNextRate logs the learning rate of the next update instead of the one that was used.
	LogNextRate bool

	// FilterNonFiniteLoss keeps nan and inf out of the logged loss (not out of the gradients): such a micro-batch counts as the sum since the
	// last log divided by one more than the updates since then. The step must implement trainer.LossFilter.
	FilterNonFiniteLoss bool

	// NonFiniteLossStays makes every logged loss nan after one that was nan or inf: the sum is brought back to zero by taking itself away from it.
	NonFiniteLossStays bool

	// TrackBestOnRequest remembers the best evaluation only if MetricForBest or LoadBestAtEnd is set.
	TrackBestOnRequest bool

	// OnlyLossIsLower takes every metric whose name does not end in "loss" for better when greater. Otherwise cer and wer are lower too.
	OnlyLossIsLower bool

	// BestMayBeUnsaved leaves it to Save whether the model of a new best evaluation is saved. LoadBestAtEnd is then refused unless Save and
	// Eval have the same unit and Save is a multiple of Eval. Otherwise LoadBestAtEnd saves each new best at once.
	BestMayBeUnsaved bool

	// OnlyBestAtEnd makes KeepCheckpoints 1 delete the last checkpoint at the end of the run if another one is the best.
	// Otherwise both stay, so that the run can be continued.
	OnlyBestAtEnd bool

	// NoFinalSave saves at the end only where Save is by updates and the planned number of updates was reached: not after a stop by a hook. Otherwise
	// every run that saves at all saves its last update.
	NoFinalSave bool

	// DropLastInEvaluation makes DropLast leave out rows of the evaluation too.
	DropLastInEvaluation bool

	// EvalLoss is how the losses of the batches of an evaluation make one.
	EvalLoss EvalLoss

	// EvalOnStartAfterResume repeats the evaluation of EvalOnStart when a run is resumed.
	EvalOnStartAfterResume bool

	// ForgetLossAtResume loses the losses between the last log and the checkpoint: they are missing from the next logged loss.
	ForgetLossAtResume bool

	// TrainLossOverAllSteps divides the losses of this session by the updates of the whole run in train_loss, and takes the samples and
	// updates of the whole run for those of this session in the train_..._per_second. Otherwise train_loss is the mean over the whole
	// run and the speeds are those of this session.
	TrainLossOverAllSteps bool

	// ForgetHooksAtResume starts hooks anew after a resume; early stopping forgets its count.
	ForgetHooksAtResume bool

	// PositionFromGlobalStep works out from the number of updates where a resumed run stands in its epoch. After an epoch that a hook
	// ended early, or with another batch size, that is wrong; what was due at the end of a just finished epoch is lost.
	// Otherwise the position is read from the checkpoint, and other sizes are refused.
	PositionFromGlobalStep bool

	// RetryFromTrained keeps, when AutoFindBatchSize begins a run anew, the weights and moments of the updates with batches that were too
	// large, and their checkpoints. Otherwise the run returns to where it began.
	RetryFromTrained bool

	// IntervalsFromCheckpoint makes a resumed run log, evaluate and save by the intervals the checkpoint was made with. Otherwise the options hold.
	IntervalsFromCheckpoint bool

	// RateFromCheckpoint makes the first update after a resume use the rate that the optimizer was saved with, and the
	// schedule the peak rate of the checkpoint. Otherwise the options hold.
	RateFromCheckpoint bool
}

// Divisor is what a mean loss is divided by before backward under accumulation.
type Divisor int

const (
	// WindowLength divides by the number of micro-batches in this very window, so that a short last one weighs as much as the others.
	WindowLength Divisor = iota
	// Accumulate divides by the configured number of micro-batches, also in a short last window, whose update is then too small.
	Accumulate
)

// EvalLoss is how the losses of the batches of an evaluation make one.
type EvalLoss int

const (
	// MeanOfRows weighs every batch by its rows, in float64.
	MeanOfRows EvalLoss = iota
	// RepeatedFloat32 repeats every loss as often as a full batch has rows, cuts the whole to the rows of the set and takes numpy's
	// mean in float32. A short last batch weighs by its rows; over many rows the last bits differ from the exact mean.
	RepeatedFloat32
	// MeanOfBatches gives every batch the same weight, however short.
	MeanOfBatches
)

// Default is Hugging Face Trainer's loop with its known defects mended.
var Default = Rules{Name: "default"}

// HuggingFace is transformers.Trainer 5.17, exactly.
var HuggingFace = Rules{
	Name:                    "huggingface 5.17",
	Divisor:                 WindowLength,
	UndividedWithItems:      true,
	StreamRestLeaks:         true,
	StreamEpochByPlan:       true,
	StopInsideWindow:        true,
	SeedOnce:                true,
	FilterNonFiniteLoss:     true,
	NonFiniteLossStays:      true,
	TrackBestOnRequest:      true,
	OnlyLossIsLower:         true,
	BestMayBeUnsaved:        true,
	OnlyBestAtEnd:           true,
	NoFinalSave:             true,
	DropLastInEvaluation:    true,
	EvalLoss:                RepeatedFloat32,
	EvalOnStartAfterResume:  true,
	ForgetLossAtResume:      true,
	TrainLossOverAllSteps:   true,
	ForgetHooksAtResume:     true,
	PositionFromGlobalStep:  true,
	RetryFromTrained:        true,
	IntervalsFromCheckpoint: true,
	RateFromCheckpoint:      true,
}
