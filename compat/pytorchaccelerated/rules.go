package pytorchaccelerated

// Rules are the points in which pytorch-accelerated 0.1.61 does what its users would not expect,
// each of them a switch. The zero value has none of them; [Exact] has all. Nothing asks which of
// the two it has: to change one point of Exact, copy it.
type Rules struct {
	// DivideByAccumulation divides the loss by GradientAccumulationSteps also in a short last
	// window, whose update is then too small. Otherwise by the number of batches in the window at
	// hand.
	DivideByAccumulation bool
	// ReportDividedLoss shows callbacks the divided loss, and makes train_loss_epoch the mean of
	// divided losses: too small by GradientAccumulationSteps.
	ReportDividedLoss bool
	// Float32EpochLoss computes the mean of an epoch's losses in float32. Otherwise in float64.
	Float32EpochLoss bool
	// ClipEveryBatch clips after the backward of every batch, so what has gathered so far is
	// clipped again and again. Otherwise once, before the update.
	ClipEveryBatch bool
	// LimitByEpoch counts towards MaxNumTrainSteps the planned updates of the epochs before and the
	// full windows of this one, which misses the short last window, and ends a run without a limit
	// at one update more than planned. Otherwise the updates that happened are counted.
	LimitByEpoch bool
	// EpochsPerSession makes a resumed run go over NumEpochs further epochs, beginning with the one
	// it was saved in, from its first batch. Otherwise it goes on behind the batch it was saved at,
	// up to NumEpochs in all, bit for bit as if it had not been interrupted.
	EpochsPerSession bool
	// StayInEvalMode leaves the model in evaluation mode after an evaluation inside an epoch, until
	// the epoch ends: no dropout.
	StayInEvalMode bool
	// LimitEvalTooLate makes LimitEvalSteps replace the loader when the evaluation already reads
	// it, so nothing is limited.
	LimitEvalTooLate bool
	// PlanIgnoresLimit plans schedules with all batches of an epoch although LimitBatches leaves
	// some out.
	PlanIgnoresLimit bool
	// LimitIsLength takes the number of LimitBatches for the length of an epoch also where there
	// are fewer batches, so a short last window gets no update.
	LimitIsLength bool
	// SaveInsideStep writes a training state at once if it is asked for between forward and update.
	// Otherwise when the update is complete.
	SaveInsideStep bool
	// EMAOfIntegers averages integer buffers as well, and cuts the result. Otherwise they are
	// copied.
	EMAOfIntegers bool
	// SaveBestAsLoss keeps the best value under the name "loss" in every file but the first,
	// whatever metric is watched, and keeps the schedule in the first whatever is asked for.
	// Otherwise under the metric's name, as asked for.
	SaveBestAsLoss bool
	// ForgetCallbacksAtResume starts counts of callbacks and the run history anew after a resume.
	ForgetCallbacksAtResume bool
	// ScheduleQuirks gives CosineLR two first updates of one rate and cuts its cosine off as many
	// updates before its end as the warmup has; makes WSD begin its warmup after an update at the
	// full rate, and places several checkpoints at 1/4, 1/2, ... of the run, the last of which may
	// not be its end. A run ends with an error where a schedule does before it: OneCycleLR, and WSD
	// with a decay of less than an update, or one in inverse proportion to a rate of zero;
	// ReduceLROnPlateau, which is told no value, ends it at the first update. Otherwise the last
	// rate stays, and the last two are refused. A resumed WSD begins its count anew. Otherwise it
	// goes on where it was.
	ScheduleQuirks bool
	// ScheduleFromLastRate makes the schedule of a second Train begin where the first left the
	// rate, if it is one of PyTorch's that compute a rate from the last one, such as StepLR.
	// Otherwise every schedule begins at the rate of the optimizer's settings.
	ScheduleFromLastRate bool
	// RegisterAtEverySave puts the schedule once more into each further training state of a run,
	// which then cannot be loaded.
	RegisterAtEverySave bool
	// TimmCountsBatches gives timm's schedules the number of batches instead of updates at the
	// begin of an epoch, counting the epoch that begins as done, and ends an epoch for them only
	// where there is an evaluation.
	TimmCountsBatches bool
	// RunWithoutBatches runs the epochs of a training set that has no whole batch. Their loss is
	// nan. Otherwise Train refuses it.
	RunWithoutBatches bool
	// LateEvaluationCheck begins an evaluation although there is no set for it; ProgressBar, or the
	// first batch, ends the run with an error. Otherwise the error comes first.
	LateEvaluationCheck bool
	// KeepFromLastRun lets a Train without CreateSchedulerFn go on with the schedule of the run
	// before, and one without evaluation set have its evaluation loader, for evaluations inside an
	// epoch, which fails where LimitBatches had limited that; the RunConfig of an evaluation keeps
	// the batch size of the training before. Otherwise each run has what it is given alone.
	KeepFromLastRun bool
	// KeepLookups makes a metric that was asked for and is not known one of the run history,
	// without values, as which LogMetrics ends a later run with an error. Otherwise asking changes
	// nothing.
	KeepLookups bool
	// EMAInEvaluate evaluates the average in Trainer.Evaluate too, which fails before the first
	// Train. Otherwise ModelEMA takes part in training runs alone.
	EMAInEvaluate bool
	// EMAStaysAfterError leaves the average in the place of the model, frozen, where its evaluation
	// or saving fails. Otherwise the model gets its weights back.
	EMAStaysAfterError bool
	// WSDKeepsLastStep makes WSDCheckpoint leave out the checkpoint of a run at the number of
	// updates at which the run before had its last. Otherwise a run begins anew.
	WSDKeepsLastStep bool
}

// Exact is pytorch-accelerated 0.1.61 to the letter, but for one habit: a loss that is not finite
// ends Train with an error and not the process.
var Exact = Rules{
	DivideByAccumulation:    true,
	ReportDividedLoss:       true,
	Float32EpochLoss:        true,
	ClipEveryBatch:          true,
	LimitByEpoch:            true,
	EpochsPerSession:        true,
	StayInEvalMode:          true,
	LimitEvalTooLate:        true,
	PlanIgnoresLimit:        true,
	LimitIsLength:           true,
	SaveInsideStep:          true,
	EMAOfIntegers:           true,
	SaveBestAsLoss:          true,
	ForgetCallbacksAtResume: true,
	ScheduleQuirks:          true,
	ScheduleFromLastRate:    true,
	RegisterAtEverySave:     true,
	TimmCountsBatches:       true,
	RunWithoutBatches:       true,
	LateEvaluationCheck:     true,
	KeepFromLastRun:         true,
	KeepLookups:             true,
	EMAInEvaluate:           true,
	EMAStaysAfterError:      true,
	WSDKeepsLastStep:        true,
}
