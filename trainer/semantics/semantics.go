// Package semantics says where trainers differ, as data. Two trainers that look alike count,
// divide, log and resume in slightly different ways; each such difference is a named switch of
// [Rules], and a known trainer is a set of switches:
//
//	trainer.Options{Semantics: semantics.HuggingFace} // transformers 5.17, its defects included
//	trainer.Options{Semantics: semantics.Hezar}       // hezar 1.0.0, and so on: see presets.go
//	trainer.Options{}                                 // semantics.Default: the same loop with those defects mended
//
// The loop reads the switches and never asks which preset it has. The zero value of every switch is
// the mended behaviour, so the zero Rules are [Default]. docs/semantics.md lists each switch with
// its source and the recorded run that shows it.
package semantics

// Rules are the switches. To change one of a preset, copy it: r := semantics.HuggingFace;
// r.FilterNonFiniteLoss = false.
type Rules struct {
	// Name is printed in the header of a run; it decides nothing.
	Name string

	// Loop is the text that tells the order of events: see [Loop].
	Loop Loop

	// PlanIgnoresLimit, in pytorch-accelerated's loop, plans with all batches of an epoch where
	// Options.LimitBatches leaves some out.
	PlanIgnoresLimit bool

	// LimitByEpoch, in pytorch-accelerated's loop, holds the planned updates of the epochs before,
	// and the full windows of this one, against the planned end of the run, and ends a run that is
	// measured in epochs one step after it, if it comes so far. Otherwise the updates that happened
	// count.
	LimitByEpoch bool

	// EpochsPerSession, in pytorch-accelerated's loop, lets a resumed run go over as many epochs as
	// a new one, beginning with the one in which, or at whose end, the checkpoint was made.
	// Otherwise the epochs before the resume count, and the run continues behind its last batch.
	EpochsPerSession bool

	// Divisor is what a mean loss is divided by before backward.
	Divisor Divisor

	// ClipEveryBatch, in pytorch-accelerated's loop, clips after the backward of every micro-batch,
	// so what has gathered so far is clipped again and again. The step must clip apart from Update
	// (trainer.About.Clips). Otherwise the gradients of the whole window are clipped once.
	ClipEveryBatch bool

	// UndividedWithItems drops the division wherever the step counts items (trainer.Counts),
	// whether or not the loss then uses the count. A model that is asked for the count and ignores
	// it gets gradients that are too large by the length of the window.
	UndividedWithItems bool

	// EndWithoutBatch lets a run of Options.MaxSteps end after no update if its first pass has no
	// batch: a stream without a sample, or a training set of fewer samples than one batch with
	// DropLast. Otherwise it is an error.
	EndWithoutBatch bool

	// StreamKeepsLast makes DropLast pass over streams: the last batch of a pass is trained on
	// however short it is.
	StreamKeepsLast bool

	// StreamEpochByPlan counts the epoch of a stream as the pass plus its batches over those of the
	// whole run, so that 0.4 is followed by 1.1. Otherwise a pass that has ended counts 1, and
	// further ones are measured by it.
	StreamEpochByPlan bool

	// SeedOnce starts the random numbers when the trainer is made and not again when it is fitted,
	// so an evaluation before the first Fit, or a first Fit before a second, changes what the next
	// draws. Otherwise every Fit begins with the seed.
	SeedOnce bool

	// ScheduleOnSkip moves the learning rate on also when loss scaling skipped an update.
	ScheduleOnSkip bool

	// FusedHidesSkips moves the learning rate on when loss scaling skipped an update of a fused
	// optimizer, which leaves it out inside its kernel. The step says whether it is
	// one (trainer.About.Fused).
	FusedHidesSkips bool

	// LossReport is what the logged loss is the mean of.
	LossReport LossReport

	// CountStepsAtResume lets RunningMean continue after a resume as if every step before had been a
	// window, which is too many under accumulation.
	CountStepsAtResume bool

	// FilterNonFiniteLoss keeps nan and inf out of the logged loss (not out of the gradients): such
	// a micro-batch counts as the sum since the last log divided by one more than the updates since
	// then. The step must obey trainer.Window.FilterLoss.
	FilterNonFiniteLoss bool

	// NonFiniteLossStays makes every logged loss nan after one that was nan or inf: the sum is
	// brought back to zero by taking itself away from it.
	NonFiniteLossStays bool

	// TrackBestOnRequest remembers the best evaluation only if MetricForBest or LoadBestAtEnd is
	// set.
	TrackBestOnRequest bool

	// OnlyLossIsLower takes every metric whose name does not end in "loss" for better when greater.
	// Otherwise cer, wer, mse, mae, rmse and perplexity are lower too.
	OnlyLossIsLower bool

	// BestMayBeUnsaved leaves it to Save whether the model of a new best evaluation is saved.
	// LoadBestAtEnd is then refused unless Save and Eval have the same unit and Save is a multiple
	// of Eval. Otherwise LoadBestAtEnd saves each new best at once.
	BestMayBeUnsaved bool

	// OnlyBestAtEnd makes KeepCheckpoints 1 delete the last checkpoint at the end of the run if
	// another one is the best. Otherwise both stay, so that the run can be continued.
	OnlyBestAtEnd bool

	// DropLastInEvaluation makes DropLast leave out rows of the evaluation too; of a set with fewer
	// rows than a batch all of them, so that it has no loss.
	DropLastInEvaluation bool

	// UnfinishedWindowLost, in Hezar's loop, gives micro-batches no update if the run ends, or a
	// hook stops it, before their window is full. Otherwise the window ends with the run.
	UnfinishedWindowLost bool

	// RepeatAtEpochEnd, in Hezar's loop, logs and saves at the end of an epoch also what its last
	// step has logged or saved already.
	RepeatAtEpochEnd bool

	// SaveInsideWindow, in Hezar's loop, saves between two micro-batches of a window where a save
	// is due there: the gradients gathered so far are not in the checkpoint, and a resumed run
	// begins a window behind it. Otherwise such a save waits for the update.
	SaveInsideWindow bool

	// SeedEveryPass starts the random numbers with the seed before every pass over the training set
	// and every evaluation: the same dropout in each epoch. A step that makes its model when it is
	// seeded keeps it (trainer.SeedOptions.KeepModel).
	SeedEveryPass bool

	// TwoIterators begins every pass over a loader twice, and draws twice from the generator for
	// it.
	TwoIterators bool

	// StayInEvalMode leaves the model in evaluation mode after an evaluation within an epoch, until
	// the epoch ends: no dropout. The step must obey trainer.Window.KeepMode.
	StayInEvalMode bool

	// KeepOldRun begins a new run in the folder of an earlier one beside its checkpoints: they
	// count for KeepCheckpoints, and are replaced where the numbers meet. Otherwise such a folder
	// is refused unless Overwrite says to empty it.
	KeepOldRun bool

	// EvalLoss is how the losses of the batches of an evaluation make one.
	EvalLoss EvalLoss

	// EvenEvalBatches shares an evaluation out among several processes as Accelerate does by
	// default (even_batches, and of a stream dispatch_batches): the first samples fill up the last
	// batches, and count in their losses though not in metrics; of what a stream has left behind
	// its last full batches every process gets an even part. A loss over counted items is that of
	// all batches of a round, times the processes (average_tokens_across_devices). Otherwise every
	// process has some of the batches that one process would have, and the outcome is that of one
	// process to the last bit.
	EvenEvalBatches bool

	// EvalOnStartAfterResume repeats the evaluation of EvalOnStart when a run is resumed.
	EvalOnStartAfterResume bool

	// ForgetLossAtResume loses the losses between the last log and the checkpoint: they are missing
	// from the next logged loss.
	ForgetLossAtResume bool

	// TrainLossOverAllSteps divides the losses of this session by the updates of the whole run in
	// train_loss, and takes the samples and updates of the whole run for those of this session in
	// the train_..._per_second. Otherwise train_loss is the mean over the whole run and the speeds
	// are those of this session.
	TrainLossOverAllSteps bool

	// ForgetHooksAtResume starts hooks over after a resume; early stopping forgets its count.
	ForgetHooksAtResume bool

	// EarlyStoppingWaits lets early stopping stop a run only behind an evaluation, so that one that
	// it has stopped continues after a resume until an evaluation is no better; and evaluations
	// before there is a best one, such as nan, do not count. Otherwise such a run ends at once, and
	// nan counts.
	EarlyStoppingWaits bool

	// PositionFromGlobalStep works out from the number of updates where a resumed run stands in its
	// epoch. After an epoch that a hook ended early, or with another batch size, that is wrong;
	// what was due at the end of a just finished epoch is lost. Otherwise the position is read from
	// the checkpoint, and other sizes are refused.
	PositionFromGlobalStep bool

	// RestartPassAtResume makes the loader of a run that is resumed within an epoch again: it draws
	// for it, and seeds if SeedEveryPass says so, a second time. Otherwise the generator continues
	// where the checkpoint left it.
	RestartPassAtResume bool

	// RetryFromTrained keeps, when AutoFindBatchSize starts a run over, the weights and moments of
	// the updates with batches that were too large, and their checkpoints. Otherwise the run
	// returns to where it began.
	RetryFromTrained bool

	// IntervalsFromCheckpoint makes a resumed run log, evaluate and save by the intervals the
	// checkpoint was made with, and its batch size stays in trainer_state.json. Otherwise the
	// options hold.
	IntervalsFromCheckpoint bool

	// ResumeFromWeights resumes from a checkpoint of SaveOnlyModel: counts, position and weights
	// are its own, while moments, the place in the schedule and random numbers begin again.
	// Otherwise such a checkpoint is refused.
	ResumeFromWeights bool

	// OptimizerFromCheckpoint makes the optimizer of a resumed run keep the settings that it was
	// saved with (weight decay, betas, momentum, those of each group), the first update use the
	// rate that it was saved with, and the schedule the peak rate of the checkpoint. Otherwise the
	// options hold.
	OptimizerFromCheckpoint bool
}
