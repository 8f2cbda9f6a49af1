package semantics

// The switches that have more than two positions. The first of each is the default.

// Steps is what a step of a run is.
type Steps int

const (
	// Updates counts optimizer updates, those that loss scaling skipped too.
	Updates Steps = iota
	// MicroBatches counts micro-batches, so that a step is not always an update.
	MicroBatches
)

// Plan is how many updates an epoch of so many batches, in windows of so many, is planned with.
type Plan int

const (
	// Ceil is batches / window rounded up: what happens where the end of an epoch ends a window.
	Ceil Plan = iota
	// Floor is batches / window rounded down, but at least one.
	Floor
	// FloorPlusOne is batches / window rounded down and one: too many by one where the division is
	// exact.
	FloorPlusOne
)

// LossReport is what a logged loss is the mean of. All but the first want to know the loss of every
// micro-batch, so the loop waits for the device after each, and the step must be a
// trainer.SplitStep.
type LossReport int

const (
	// SinceLog is the sum of the divided losses since the last log over the steps since then.
	SinceLog LossReport = iota
	// RunningMean is the mean over the windows since the run began, a resume included. A window
	// counts as the sum of its undivided losses over the configured number of micro-batches; it
	// closes at every so many batches of the epoch and at its end.
	RunningMean
	// EpochMean is the mean of the divided losses of this epoch so far, weighted by the samples of
	// their batches and rounded to float32.
	EpochMean
	// WindowMean is the mean of the undivided losses of the last window, in float32. Of a window
	// that began in the epoch before, only those of this epoch count.
	WindowMean
)

// Order is in which order what is due is done.
type Order int

const (
	// LogEvaluateSave logs, evaluates and then saves, so that a checkpoint knows the evaluation of
	// its step.
	LogEvaluateSave Order = iota
	// SaveEvaluateLog saves first and logs last.
	SaveEvaluateLog
)

// Divisor is what a mean loss is divided by before backward under accumulation.
type Divisor int

const (
	// WindowLength divides by the number of micro-batches in this very window, so that a short last
	// one weighs as much as the others.
	WindowLength Divisor = iota
	// Accumulate divides by the configured number of micro-batches, also in a short last window,
	// whose update is then too small.
	Accumulate
)

// EvalLoss is how the losses of the batches of an evaluation make one.
type EvalLoss int

const (
	// MeanOfRows weighs every batch by its rows, in float64.
	MeanOfRows EvalLoss = iota
	// RepeatedFloat32 repeats every loss as often as a full batch has rows, cuts the whole to the
	// rows of the set and takes numpy's mean in float32. A short last batch weighs by its rows;
	// over many rows the last bits differ from the exact mean.
	RepeatedFloat32
	// MeanOfBatches gives every batch the same weight, however short.
	MeanOfBatches
	// RowsInFloat32 weighs every batch by its rows and adds up in float64, but rounds the sum to
	// float32 before it is divided.
	RowsInFloat32
)
