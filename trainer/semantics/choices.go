package semantics

// Switches with more than two values. The first value of each is the default.

// Loop is the order of events of a trainer: the function in trainer/texts.go that package trainer
// runs.
type Loop int

const (
	// DefaultLoop is Hugging Face's loop with its known defects fixed: a step is an update, a
	// window is always finished, even at the end of an epoch or of a stream's pass, and the last
	// update is saved.
	DefaultLoop Loop = iota
	// HuggingFaceLoop is the loop of transformers 5.17: a stop between two micro-batches takes
	// effect immediately, the rest of a pass over a stream leaks into the next one, and only
	// intervals save.
	HuggingFaceLoop
	// HezarLoop is the loop of hezar 1.0.0: a step is a micro-batch, for the intervals, for
	// MaxSteps and for the learning rate. MaxSteps can only shorten the epochs, and saves come
	// before evaluations and logs.
	HezarLoop
	// PytorchAcceleratedLoop is the loop of pytorch-accelerated 0.1.61.
	PytorchAcceleratedLoop
	// PyMarlinLoop is the loop of PyMarlin 0.3.6: a window that is cut short by the end of an epoch
	// continues in the next one, and gradients left over at the end of the run give no update. An
	// epoch whose number of batches is a multiple of the window is planned with one update too
	// many.
	PyMarlinLoop
)

// CountsBatches reports whether a step is a micro-batch rather than an update.
func (r Rules) CountsBatches() bool { return r.Loop == HezarLoop }

// CarriesWindows reports whether a window continues across the end of an epoch. Items are not
// counted in that case, since the batches of a window are not available together.
func (r Rules) CarriesWindows() bool { return r.Loop == PyMarlinLoop }

// LossReport says what a logged loss is the mean of. All but the first need the loss of every
// micro-batch, so the loop waits for the device after each one, and the step must be a
// trainer.SplitStep.
type LossReport int

const (
	// SinceLog is the sum of the divided losses since the last log, divided by the steps since
	// then.
	SinceLog LossReport = iota
	// RunningMean is the mean over all windows since the run began, including those before a
	// resume. A window counts as the mean of its undivided losses. With the Divisor Accumulate it
	// counts as their sum divided by the configured number of micro-batches, and a window closes
	// after every that many batches of the epoch and at its end.
	RunningMean
	// EpochMean is the mean of the divided losses of this epoch so far, weighted by the samples of
	// their batches and rounded to float32.
	EpochMean
	// WindowMean is the mean of the undivided losses of the last window, in float32. If the window
	// began in the previous epoch, only the losses of this epoch count.
	WindowMean
)

// Divisor says what a mean loss is divided by before the backward pass when gradients are
// accumulated.
type Divisor int

const (
	// WindowLength divides by the number of micro-batches in the current window, so that a short
	// last window has the same weight as the others.
	WindowLength Divisor = iota
	// Accumulate divides by the configured number of micro-batches, even in a short last window,
	// whose update is then too small.
	Accumulate
)

// EvalLoss says how the loss of an evaluation is computed from the losses of its batches.
type EvalLoss int

const (
	// MeanOfRows weights every batch by its rows, in float64.
	MeanOfRows EvalLoss = iota
	// RepeatedFloat32 repeats every loss as often as a full batch has rows, truncates the result to
	// the rows of the set and takes numpy's mean in float32. A short last batch is weighted by its
	// rows. With many rows, the last bits differ from the exact mean.
	RepeatedFloat32
	// MeanOfBatches gives every batch the same weight, however short it is.
	MeanOfBatches
	// RowsInFloat32 weights every batch by its rows and sums in float64, but rounds the sum to
	// float32 before dividing.
	RowsInFloat32
)
