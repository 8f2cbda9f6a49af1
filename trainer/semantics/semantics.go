// Package semantics says where trainers differ, as data. Two trainers that look alike count,
// divide, log and resume in slightly different ways; each such difference is a named switch of
// [Rules], and a known trainer is a set of switches:
//
//	trainer.Options{Semantics: semantics.HuggingFace} // transformers 5.17, its defects included
//	trainer.Options{Semantics: semantics.Hezar}       // hezar 1.0.0, and so on: see presets.go
//	trainer.Options{}                                 // semantics.Default: the same loop with those defects fixed
//
// The loop reads the switches and never asks which preset it has. The zero value of every switch is
// the fixed behaviour, so the zero Rules are [Default]. docs/semantics.md lists each switch with
// its source and the recorded run that shows it.
package semantics

// Rules is the set of switches. To change one of a preset, copy the preset: r :=
// semantics.HuggingFace; r.FilterNonFiniteLoss = false.
type Rules struct {
	// Name is printed in the header of a run. It has no other effect.
	Name string

	// Loop is the order of events; see [Loop].
	Loop Loop

	// PlanIgnoresLimit, in pytorch-accelerated's loop, plans the run with all batches of an epoch
	// even if Options.LimitBatches leaves some out.
	PlanIgnoresLimit bool

	// LimitByEpoch, in pytorch-accelerated's loop, compares the planned updates of the earlier
	// epochs plus the full windows of the current one with the planned end of the run. A run
	// measured in epochs ends one step after it, if it gets that far. Otherwise the updates that
	// were made count.
	LimitByEpoch bool

	// EpochsPerSession, in pytorch-accelerated's loop, makes a resumed run go over as many epochs
	// as a new one, beginning with the epoch in which, or at whose end, the checkpoint was made.
	// Otherwise the epochs before the resume count, and the run continues after its last batch.
	EpochsPerSession bool

	// Divisor is what a mean loss is divided by before the backward pass.
	Divisor Divisor

	// ClipEveryBatch, in pytorch-accelerated's loop, clips after the backward pass of every
	// micro-batch, so gradients accumulated earlier are clipped repeatedly. The step must be able
	// to clip apart from Update (trainer.About.Clips). Otherwise the gradients of the whole window
	// are clipped once.
	ClipEveryBatch bool

	// UndividedWithItems omits the division whenever the step counts items (trainer.Counts),
	// whether or not the loss then uses the count. A model that is given the count and ignores it
	// gets gradients that are too large by a factor of the window's length.
	UndividedWithItems bool

	// EndWithoutBatch lets a run with Options.MaxSteps end without an update if its first pass has
	// no batch: a stream without samples or, with DropLast, a training set with fewer samples than
	// one batch. Otherwise that is an error.
	EndWithoutBatch bool

	// StreamKeepsLast makes DropLast ignore streams: the last batch of a pass is trained on however
	// short it is.
	StreamKeepsLast bool

	// StreamEpochByPlan computes the epoch of a stream as the pass plus its batches divided by
	// those of the whole run, so that 0.4 is followed by 1.1. Otherwise a completed pass counts 1,
	// and later passes are measured by it.
	StreamEpochByPlan bool

	// SeedOnce seeds the random numbers when the trainer is made and not again in Fit. An
	// evaluation before the first Fit, or a first Fit before a second, then changes the numbers
	// that the next Fit draws. Otherwise every Fit begins with the seed.
	SeedOnce bool

	// ScheduleOnSkip also advances the learning rate when loss scaling has skipped an update.
	ScheduleOnSkip bool

	// FusedHidesSkips advances the learning rate when loss scaling has skipped an update of a fused
	// optimizer, which skips it inside its kernel. The step says whether its optimizer is fused
	// (trainer.About.Fused).
	FusedHidesSkips bool

	// LossReport says what the logged loss is the mean of.
	LossReport LossReport

	// CountStepsAtResume makes RunningMean continue after a resume as if every earlier step had
	// been a window. With accumulation, that is too many.
	CountStepsAtResume bool

	// FilterNonFiniteLoss keeps NaN and infinities out of the logged loss (but not out of the
	// gradients). Such a micro-batch counts as the sum since the last log divided by one more than
	// the updates since then. The step must obey trainer.Window.FilterLoss.
	FilterNonFiniteLoss bool

	// NonFiniteLossStays makes every logged loss NaN after one that was NaN or infinite, because
	// the sum is reset by subtracting it from itself.
	NonFiniteLossStays bool

	// TrackBestOnRequest tracks the best evaluation only if MetricForBest or LoadBestAtEnd is set.
	TrackBestOnRequest bool

	// OnlyLossIsLower treats greater as better for every metric whose name does not end in "loss".
	// Otherwise lower is also better for cer, wer, mse, mae, rmse and perplexity.
	OnlyLossIsLower bool

	// BestMayBeUnsaved lets Save alone decide whether the model of a new best evaluation is saved.
	// LoadBestAtEnd is then refused unless Save and Eval have the same unit and Save is a multiple
	// of Eval. Otherwise LoadBestAtEnd saves each new best model immediately.
	BestMayBeUnsaved bool

	// OnlyBestAtEnd makes KeepCheckpoints 1 delete the last checkpoint at the end of the run if
	// another one is the best. Otherwise both are kept, so that the run can be continued.
	OnlyBestAtEnd bool

	// DropLastInEvaluation makes DropLast also leave out rows of the evaluation. A set with fewer
	// rows than a batch then has none left, and so no loss.
	DropLastInEvaluation bool

	// UnfinishedWindowLost, in Hezar's loop, makes no update from a window that is not full when
	// the run ends or a hook stops it. Otherwise the window ends with the run.
	UnfinishedWindowLost bool

	// RepeatAtEpochEnd, in Hezar's loop, logs and saves at the end of an epoch even if its last
	// step has already done so.
	RepeatAtEpochEnd bool

	// SaveInsideWindow, in Hezar's loop, saves between two micro-batches of a window if a save is
	// due there. The gradients accumulated so far are not in the checkpoint, and a resumed run
	// starts a new window after it. Otherwise such a save waits for the update.
	SaveInsideWindow bool

	// SeedEveryPass restarts the random numbers with the seed before every pass over the training
	// set and every evaluation, so each epoch has the same dropout. A step that makes its model
	// when it is seeded keeps the model (trainer.SeedOptions.KeepModel).
	SeedEveryPass bool

	// TwoIterators begins every pass over a loader twice, and so draws twice from the generator for
	// it.
	TwoIterators bool

	// StayInEvalMode leaves the model in evaluation mode after an evaluation within an epoch, until
	// the epoch ends, so there is no dropout. The step must obey trainer.Window.KeepMode.
	StayInEvalMode bool

	// KeepOldRun starts a new run in the folder of an earlier one and leaves its checkpoints there.
	// They count for KeepCheckpoints, and are replaced by checkpoints with the same number.
	// Otherwise such a folder is refused unless Overwrite is set to empty it.
	KeepOldRun bool

	// EvalLoss says how the loss of an evaluation is computed from the losses of its batches.
	EvalLoss EvalLoss

	// EvenEvalBatches shares an evaluation among several processes as Accelerate does by default
	// (even_batches and, for a stream, dispatch_batches). The first samples fill up the last
	// batches; they count in the losses of these batches but not in metrics. What remains of a
	// stream after its last full batches is divided evenly among the processes. A loss over counted
	// items is that of all batches of a round, multiplied by the number of processes
	// (average_tokens_across_devices).
	//
	// Otherwise every process evaluates some of the batches that a single process would have, and
	// the result equals that of a single process to the last bit.
	EvenEvalBatches bool

	// EvalOnStartAfterResume repeats the evaluation of EvalOnStart when a run is resumed.
	EvalOnStartAfterResume bool

	// ForgetLossAtResume loses the losses between the last log and the checkpoint, which are then
	// missing from the next logged loss.
	ForgetLossAtResume bool

	// TrainLossOverAllSteps computes train_loss as the losses of this session divided by the
	// updates of the whole run, and computes the train_..._per_second numbers as if the samples and
	// updates of the whole run were those of this session. Otherwise train_loss is the mean over
	// the whole run, and the speeds are those of this session.
	TrainLossOverAllSteps bool

	// ForgetHooksAtResume resets hooks after a resume; early stopping, for example, forgets its
	// count.
	ForgetHooksAtResume bool

	// EarlyStoppingWaits lets early stopping stop a run only after an evaluation. A run that it has
	// stopped then continues after a resume until an evaluation is no better. Evaluations before
	// there is a best one, such as those that give NaN, do not count. Otherwise such a run ends
	// immediately, and NaN counts.
	EarlyStoppingWaits bool

	// PositionFromGlobalStep computes from the number of updates where a resumed run stands in its
	// epoch. That is wrong after an epoch that a hook ended early, or with a different batch size.
	// It also loses what was due at the end of an epoch that had just finished. Otherwise the
	// position is read from the checkpoint, and different sizes are refused.
	PositionFromGlobalStep bool

	// RestartPassAtResume makes the loader of a run that is resumed within an epoch again: it draws
	// for it a second time and, with SeedEveryPass, also seeds a second time. Otherwise the
	// generator continues where the checkpoint left it.
	RestartPassAtResume bool

	// RetryFromTrained applies when AutoFindBatchSize starts a run over. It keeps the weights and
	// moments of the updates made with batches that were too large, and their checkpoints.
	// Otherwise the run returns to where it began.
	RetryFromTrained bool

	// IntervalsFromCheckpoint makes a resumed run log, evaluate and save at the intervals with
	// which the checkpoint was made, and keeps the checkpoint's batch size in trainer_state.json.
	// Otherwise the options apply.
	IntervalsFromCheckpoint bool

	// ResumeFromWeights allows resuming from a checkpoint made with SaveOnlyModel. Its counts,
	// position and weights are used, while moments, the position in the schedule and random numbers
	// start over. Otherwise such a checkpoint is refused.
	ResumeFromWeights bool

	// OptimizerFromCheckpoint makes the optimizer of a resumed run keep the settings it was saved
	// with (weight decay, betas, momentum and those of each group). The first update uses the saved
	// learning rate, and the schedule the peak rate of the checkpoint. Otherwise the options apply.
	OptimizerFromCheckpoint bool
}
