package pytorchaccelerated

import "github.com/gotrainer/gotrainer/compat/internal/loops"

// Rules are the points in which pytorch-accelerated 0.1.61 does what its users would not expect,
// each of them a switch. The zero value has none of them; [Exact] has all. Nothing asks which of
// the two it has: to change one point of Exact, copy it. docs/from-pytorch-accelerated.md says what
// there is without each of them.
type Rules struct {
	DivideByAccumulation    bool // the loss of a short last window is divided by GradientAccumulationSteps too
	ReportDividedLoss       bool // callbacks see the divided loss, and train_loss_epoch is the mean of divided losses
	Float32EpochLoss        bool // the mean of an epoch's losses is computed in float32
	ClipEveryBatch          bool // clips after the backward of every batch what has gathered so far
	LimitByEpoch            bool // MaxNumTrainSteps counts planned updates of epochs and full windows of the last
	EpochsPerSession        bool // a resumed run begins its epoch again and goes over NumEpochs further ones
	StayInEvalMode          bool // no dropout after an evaluation inside an epoch, until the epoch ends
	LimitEvalTooLate        bool // LimitEvalSteps replaces the loader when it is read already: nothing is limited
	PlanIgnoresLimit        bool // schedules are planned with the batches that LimitBatches leaves out
	LimitIsLength           bool // a short last window within LimitBatches gets no update
	SaveInsideStep          bool // a training state is written at once, also between forward and update
	EMAOfIntegers           bool // integer buffers are averaged as well, and the result cut
	SaveBestAsLoss          bool // the best value is named "loss" in every file but the first, which has the schedule
	ForgetCallbacksAtResume bool // counts of callbacks and the run history begin again after a resume
	// CosineLR has two first updates of one rate and cuts its cosine off as many updates before its
	// end as the warmup has; WSD begins its warmup after an update at the full rate, places several
	// checkpoints at 1/4, 1/2, ... of the run, and a resumed one begins its count again. A run ends
	// with an error where a schedule ends before it, such as OneCycleLR; ReduceLROnPlateau, which
	// is told no value, ends it at the first update.
	ScheduleQuirks bool
	// the schedule of a second Train begins where the first left the rate, if it is one of
	// PyTorch's that compute a rate from the last one, such as StepLR
	ScheduleFromLastRate bool
	RegisterAtEverySave  bool // each further training state has the schedule once more, and cannot be loaded
	// timm's schedules are given batches instead of updates at the begin of an epoch, counting it
	// as done, and the end of an epoch only where there is an evaluation
	TimmCountsBatches   bool
	RunWithoutBatches   bool // a training set without a whole batch is run through; the loss is nan
	LateEvaluationCheck bool // an evaluation without set begins, and fails at ProgressBar or the first batch
	// a Train without CreateSchedulerFn continues the schedule of the run before, and one without
	// evaluation set has its evaluation loader; the RunConfig of an evaluation keeps the batch size
	KeepFromLastRun    bool
	KeepLookups        bool // a metric that was asked for in vain is one of the history, without values
	EMAInEvaluate      bool // the average is evaluated in Trainer.Evaluate too, which fails before the first Train
	EMAStaysAfterError bool // the average stays in the place of the model, frozen, where it cannot be saved
	WSDKeepsLastStep   bool // no checkpoint of a run at the number of updates of the last one of the run before
}

// Exact is pytorch-accelerated 0.1.61 to the letter, but for one habit: a loss that is not finite
// ends Train with an error and not the process.
var Exact = loops.AllSet[Rules]()
