package pytorchaccelerated

import "github.com/gotrainer/gotrainer/compat/internal/loops"

// Rules are switches for the points in which pytorch-accelerated 0.1.61 does what its users would
// not expect. The zero value has none of them; [Exact] has all. To change one point of Exact, copy
// it. docs/from-pytorch-accelerated.md says what happens without each of them.
type Rules struct {
	DivideByAccumulation    bool // the loss of a short last window is divided by GradientAccumulationSteps too
	ReportDividedLoss       bool // callbacks see the divided loss, and train_loss_epoch is the mean of divided losses
	Float32EpochLoss        bool // the mean of an epoch's losses is computed in float32
	ClipEveryBatch          bool // clip the gradients accumulated so far after the backward pass of every batch
	LimitByEpoch            bool // MaxNumTrainSteps counts planned updates of epochs and full windows of the last
	EpochsPerSession        bool // a resumed run starts its epoch again and runs NumEpochs further ones
	StayInEvalMode          bool // no dropout after an evaluation inside an epoch, until the epoch ends
	LimitEvalTooLate        bool // LimitEvalSteps replaces the loader after it has been read, so nothing is limited
	PlanIgnoresLimit        bool // schedules are planned with the batches that LimitBatches skips
	LimitIsLength           bool // a short last window within LimitBatches gets no update
	SaveInsideStep          bool // a training state is written at once, even between forward and update
	EMAOfIntegers           bool // integer buffers are averaged as well, and the result truncated
	SaveBestAsLoss          bool // the best value is named "loss" in every file but the first, which has the schedule
	ForgetCallbacksAtResume bool // counts of callbacks and the run history start again after a resume
	// CosineLR has the same rate in its first two updates, and cuts its cosine off before its end
	// by as many updates as the warmup has. WSD starts its warmup after an update at the full
	// rate, places several checkpoints at 1/4, 1/2, ... of the run, and starts its count again
	// when resumed. A run fails with an error if a schedule such as OneCycleLR ends before it.
	// ReduceLROnPlateau, which gets no value, ends the run at the first update.
	ScheduleQuirks bool
	// the schedule of a second Train starts at the rate at which the first ended, if it is one of
	// PyTorch's that compute a rate from the previous one, such as StepLR
	ScheduleFromLastRate bool
	RegisterAtEverySave  bool // each further training state contains the schedule once more, and cannot be loaded
	// timm's schedules get batches instead of updates at the start of an epoch, which counts as
	// done, and get the end of an epoch only if there is an evaluation
	TimmCountsBatches   bool
	RunWithoutBatches   bool // a training set without a full batch is accepted; the loss is nan
	LateEvaluationCheck bool // an evaluation without a set starts, and fails at ProgressBar or the first batch
	// a Train without CreateSchedulerFn continues the schedule of the previous run, and one
	// without an evaluation set has the previous evaluation loader; the RunConfig of an evaluation
	// keeps the batch size
	KeepFromLastRun    bool
	KeepLookups        bool // looking up an unknown metric adds it to the history, without values
	EMAInEvaluate      bool // the average is evaluated in Trainer.Evaluate too, which fails before the first Train
	EMAStaysAfterError bool // the average remains in place of the model, frozen, if it cannot be saved
	WSDKeepsLastStep   bool // no checkpoint of a run at the number of updates of the previous run's last one
}

// Exact behaves exactly like pytorch-accelerated 0.1.61, with one exception: a loss that is not
// finite makes Train return an error instead of ending the process.
var Exact = loops.AllSet[Rules]()
