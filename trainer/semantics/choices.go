package semantics

// The switches that have more than two positions. The first of each is the default.

// Loop is the order of events of a trainer: the text that package trainer runs (trainer/texts.go).
type Loop int

const (
	// DefaultLoop is Hugging Face's with its defects mended: a step is an update; a window is
	// always finished, at the end of an epoch or of a stream's pass too; the last update is saved.
	DefaultLoop Loop = iota
	// HuggingFaceLoop is that of transformers 5.17: a stop between two micro-batches takes effect
	// there, the rest of a pass over a stream leaks into the next one, and only intervals save.
	HuggingFaceLoop
	// HezarLoop is that of hezar 1.0.0: a step is a micro-batch, for the intervals, MaxSteps and
	// the learning rate; MaxSteps can only shorten the epochs; saves come before evaluations and
	// logs.
	HezarLoop
	// PytorchAcceleratedLoop is that of pytorch-accelerated 0.1.61.
	PytorchAcceleratedLoop
	// PyMarlinLoop is that of PyMarlin 0.3.6: a window that the end of an epoch cuts short
	// continues in the next one, and what has gathered when the run ends gives no update. An epoch
	// is planned with one update too many where its batches are a multiple of the window.
	PyMarlinLoop
)

// CountsBatches reports whether a step is a micro-batch, and not an update.
func (r Rules) CountsBatches() bool { return r.Loop == HezarLoop }

// CarriesWindows reports whether a window runs over the end of an epoch. Items are not counted
// then, since the batches of a window are not there together.
func (r Rules) CarriesWindows() bool { return r.Loop == PyMarlinLoop }

// LossReport is what a logged loss is the mean of. All but the first want to know the loss of every
// micro-batch, so the loop waits for the device after each, and the step must be a
// trainer.SplitStep.
type LossReport int

const (
	// SinceLog is the sum of the divided losses since the last log over the steps since then.
	SinceLog LossReport = iota
	// RunningMean is the mean over the windows since the run began, a resume included. A window
	// counts as the mean of its undivided losses. With the Divisor Accumulate it is their sum over
	// the configured number of micro-batches, and closes at every so many batches of the epoch and
	// at its end.
	RunningMean
	// EpochMean is the mean of the divided losses of this epoch so far, weighted by the samples of
	// their batches and rounded to float32.
	EpochMean
	// WindowMean is the mean of the undivided losses of the last window, in float32. Of a window
	// that began in the epoch before, only those of this epoch count.
	WindowMean
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
