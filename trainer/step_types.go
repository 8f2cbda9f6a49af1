package trainer

import (
	"context"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// Arguments and results of the methods of a [Step].

// Metrics are the numbers of one evaluation by their bare names: "loss", "accuracy", "cer". In logs
// and checkpoints they are prefixed with the name of the evaluation, as in Hugging Face:
// "eval_loss".
type Metrics map[string]float64

// Window says where a micro-batch stands in its accumulation window, that is, among the
// micro-batches of one update.
type Window struct {
	Index int // 0, 1, ... within the window
	Len   int // micro-batches in this window; a short last window has its own length
	// Divisor is what a mean loss is divided by before the backward pass; the semantics decide
	// whether it is Len. For a part of a divided micro-batch, it is larger by the same factor by
	// which the part is smaller. Sums over Items are not divided.
	Divisor float64
	// Share is the weight of a part of a divided micro-batch (Options.DivideOnOutOfMemory) in the
	// loss of that micro-batch; 0: the micro-batch is whole.
	Share float64
	Items int64 // labelled items of the whole window, if the step counts them (see Counts); 0: not counted
	// LearningRate is the rate that will be passed to Update at the end of the window.
	LearningRate float64

	// FilterLoss keeps NaN and infinities out of Report.LossSum, as Hugging Face's
	// logging_nan_inf_filter does: a micro-batch with such a loss adds sum/(1+SinceLog) instead,
	// where sum is what has accumulated since the last report. Gradients are not affected.
	FilterLoss bool
	// SkipNonFinite skips the update of the window if its gradients are not finite. Update then
	// returns false.
	SkipNonFinite bool
	// SkipUnseen says that the loop does not need to know whether the update of the window is
	// skipped, by loss scaling or SkipNonFinite. Update may then return true without waiting for
	// the device to find out. [Report] tells whether the last update was skipped.
	SkipUnseen bool
	// StopAtNonFinite makes Train, Forward and Clip return a [*NonFiniteError] if they can tell,
	// without waiting for the device, that the loss or the norm of the gradients is not finite.
	StopAtNonFinite bool
	SinceLog        int // steps since the last row of the log, as of the beginning of the window

	// KeepMode leaves the model in its current mode, which after an evaluation is evaluation mode;
	// see semantics.Rules.StayInEvalMode. Otherwise training switches it to training mode.
	KeepMode bool
}

// NonFiniteFinder is a [Step] that can find out where numbers become non-finite. The loop uses it
// only when a run stops for that reason.
type NonFiniteFinder[B any] interface {
	// FindNonFinite runs the forward and the backward pass on a micro-batch again, without their
	// effects on weights, buffers and generators. The gradients are lost.
	FindNonFinite(ctx context.Context, batch B, w Window) (NonFiniteOrigin, error)
}

// NonFiniteOrigin says where the numbers of a micro-batch become non-finite; the zero value means
// nowhere.
type NonFiniteOrigin struct {
	Module    string   // the first module whose output is not finite
	Input     bool     // the input of the module is not finite either
	Loss      bool     // the loss is not finite
	Gradients []string // the parameters whose gradients are not finite, in the order of the model
}

// Report is what a [Step] reports for the log.
type Report struct {
	LossSum float64 // sum of the losses passed to backward (already divided) since the last report
	// GradNorm is the total norm of the gradients before clipping at the last update. It is NaN or
	// infinite if the gradients are not finite, and negative if no norm was computed.
	GradNorm float64
	// Logged holds further numbers for the log since the last report, by name.
	Logged map[string]Mean
	// Skipped says that the last update was skipped although Update returned true; see
	// Window.SkipUnseen.
	Skipped bool
}

// Mean is the mean Sum/Count of numbers that accumulate, such as those of micro-batches.
type Mean struct{ Sum, Count float64 }

// Counts says how large a batch is.
type Counts struct {
	// Items is the number of labelled items, such as tokens, if the step's loss is averaged over
	// the items of a whole window. 0: the loss is averaged over the micro-batches.
	Items int64
	// Labels is the number of labels, such as tokens, that a mean loss is taken over, if it is not
	// over samples. The parts of a micro-batch (Options.DivideOnOutOfMemory) are weighted by it. 0:
	// the loss is over samples.
	Labels int64
	// Tokens is the number of input tokens, for num_input_tokens_seen and the speed in tokens.
	Tokens int64
	// Flops is the number of floating-point operations of the forward and the backward pass:
	// Hugging Face's floating_point_ops, total_flos in the state.
	Flops float64
}

// SeedOptions says how a step is seeded. KeepModel and UnlessFresh are for a step that makes its
// model itself (About.MakesModel).
type SeedOptions struct {
	KeepModel   bool // restart only the random numbers: see semantics.Rules.SeedEveryPass
	UnlessFresh bool // do nothing if the model has just been made and has not been used since
	// Rank is that of this process. A step that wants other random numbers on each process adds it
	// to the seed, as set_seed(device_specific=True) of accelerate does.
	Rank int
}

// SaveOptions says what is saved.
type SaveOptions struct {
	WeightsOnly bool // only model.safetensors: see Options.SaveOnlyModel
	// Gradients says that the gradients are part of the state: the window continues across the end
	// of the epoch, and its gradients so far belong to the next epoch. Only semantics.PyMarlinLoop
	// has such windows.
	Gradients bool
	// Later, if not nil, lets Save leave the writing of large files to another goroutine, so that
	// training continues meanwhile. Save copies their contents and passes Later a function that
	// writes the copy. The function returns the names of weights in the copy that are not finite,
	// as NonFinite does. Values that do not change before the next call of the step may be copied
	// by that function instead.
	//
	// The functions are called once each, in order, and before the next Save. A type that changes
	// the files of the step it embeds must pass a nil Later to it, so that the files exist when
	// that Save returns. See Options.AsyncSave.
	Later func(write func() (nonFinite []string, err error))
}

// LoadOptions says what is loaded.
type LoadOptions struct {
	WeightsOnly bool // only the weights, as for the best model at the end of a run
	// Settings also loads the settings of the optimizer: weight decay, betas and those of each
	// group. See semantics.Rules.OptimizerFromCheckpoint.
	Settings bool
	// KeepOrder leaves the order of the running epoch unchanged, for a run that returns to one of
	// its earlier checkpoints and continues with the next data. GroupStep.SetRandomState, which may
	// follow, must not change the order either.
	KeepOrder bool
}

// LoaderOptions says which loader is needed and which options the trainer would make it with.
type LoaderOptions struct {
	data.LoaderOptions
	Evaluation *Evaluation // nil: the training set
}

// Evaluation describes an evaluation that is about to begin.
type Evaluation struct {
	Name      string             // "eval", "eval_a" for one of several sets, "test"
	Rows      int                // samples in the set; 0: a stream, whose length is not known
	BatchSize int                // batch size of its loader
	Loss      semantics.EvalLoss // how the step must average the losses of the batches
	Predict   bool               // the step must keep its predictions, for Trainer.Predict
	Shared    bool               // it is shared among the processes, and uses EvalRound: see [GroupStep]
	Even      bool               // all processes get batches of one size: semantics.Rules.EvenEvalBatches
}

// BatchLoss is the loss of one batch.
type BatchLoss struct {
	Loss    float64 // as returned by the model or the loss function
	Divided float64 // as passed to backward; in an evaluation the same as Loss
}
