package trainer

import (
	"context"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// What a [Step] is told and what it returns.

// Metrics are the numbers of one evaluation by their bare names: "loss", "accuracy", "cer". Logs
// and checkpoints put the name of the evaluation set before them, as Hugging Face does:
// "eval_loss".
type Metrics map[string]float64

// Window says where a micro-batch stands in its accumulation window, the micro-batches behind one
// update.
type Window struct {
	Index int // 0, 1, ... within the window
	Len   int // micro-batches in this window; a short last window has its own length
	// Divisor is what a mean loss is divided by before backward; the semantics decide whether it is
	// Len. A part of a divided micro-batch has it as many times larger as the part is smaller. Sums
	// over Items are not divided.
	Divisor float64
	// Share is what a part of a micro-batch that is divided (Options.DivideOnOutOfMemory) counts in
	// its loss; 0: the micro-batch is whole.
	Share float64
	Items int64 // labelled items of the whole window where the step counts them (see Counts); 0: not counted
	// LearningRate is that of the update which ends the window: what Update will be told.
	LearningRate float64

	// FilterLoss keeps nan and inf out of Report.LossSum, as logging_nan_inf_filter of Hugging Face
	// does: a micro-batch whose loss is one adds sum/(1+SinceLog) instead, sum being what has
	// gathered since the last report. Gradients are not touched.
	FilterLoss bool
	// SkipNonFinite leaves out the update of the window if its gradients are not finite: Update
	// then reports that nothing was applied.
	SkipNonFinite bool
	// SkipUnseen says that nobody asks whether the update of the window is left out, by loss
	// scaling or SkipNonFinite: Update may report that it was made, and need not wait for the device
	// to know better. [Report] then tells of the last one.
	SkipUnseen bool
	// StopAtNonFinite has Train, Forward and Clip return a [*NonFiniteError] where they can tell
	// without waiting for the device that the loss or the norm of the gradients is not finite.
	StopAtNonFinite bool
	SinceLog        int // steps since the last row of the log, when the window began

	// KeepMode leaves the model in the mode in which it is, which after an evaluation is evaluation
	// mode: see semantics.Rules.StayInEvalMode. Otherwise training puts it into training mode.
	KeepMode bool
}

// NonFiniteFinder is a [Step] that can say where numbers cease to be finite. The loop asks for it
// when a run stops, and not before.
type NonFiniteFinder[B any] interface {
	// FindNonFinite runs forward and backward on a micro-batch again, without its effects on the
	// weights, buffers and generators; the gradients are lost.
	FindNonFinite(ctx context.Context, batch B, w Window) (NonFiniteOrigin, error)
}

// NonFiniteOrigin is where the numbers of a micro-batch cease to be finite; the zero value:
// nowhere.
type NonFiniteOrigin struct {
	Module    string   // the first whose output is not finite
	Input     bool     // what it was given is not either
	Loss      bool     // the loss is not finite
	Gradients []string // the parameters whose gradients are not, in the order of the model
}

// Report is what a [Step] tells for the log.
type Report struct {
	LossSum float64 // sum of the losses handed to backward (already divided) since the last report
	// total norm before clipping at the last update; NaN-free only if the gradients are; negative:
	// none was computed
	GradNorm float64
	// Logged are further numbers for the log since the last report, by name, of a step that has some.
	Logged map[string]Mean
	// Skipped: the last update was left out although Update has reported that it was made, see
	// Window.SkipUnseen.
	Skipped bool
}

// Mean is the mean Sum/Count of numbers that gather, such as those of micro-batches.
type Mean struct{ Sum, Count float64 }

// Counts say how large a batch is.
type Counts struct {
	// Items are the labelled items, such as tokens, of a step whose loss is averaged over those of
	// a whole window. 0: it is averaged over the micro-batches.
	Items int64
	// Labels are what a mean loss is over, such as tokens, where that is not the samples: parts of
	// a micro-batch (Options.DivideOnOutOfMemory) weigh by them. 0: the samples.
	Labels int64
	// Tokens are the input tokens, for num_input_tokens_seen and the speed in tokens.
	Tokens int64
	// Flops are the floating-point operations of forward and backward: floating_point_ops of
	// Hugging Face, total_flos in the state.
	Flops float64
}

// SeedOptions say what becomes of a model that the step makes itself (About.MakesModel). Other
// steps need not look at them.
type SeedOptions struct {
	KeepModel   bool // only the random numbers start again: see semantics.Rules.SeedEveryPass
	UnlessFresh bool // do nothing if the model has just been made and nothing has happened since
}

// SaveOptions say what is saved.
type SaveOptions struct {
	WeightsOnly bool // model.safetensors alone: see Options.SaveOnlyModel
	// Gradients are part of the state: the window runs over the end of the epoch, and what it has
	// gathered is for the next one. Only semantics.PyMarlinLoop has such windows.
	Gradients bool
	// Later, if it is not nil, is how Save leaves the writing of large files to another goroutine,
	// so that training continues meanwhile: Save copies what belongs to them, and gives Later a
	// function that writes the copy, and names the weights in it that are not finite as NonFinite
	// does. Save may leave the copy to that function, too, of what does not change before the next
	// call of the step. The functions are called once, in their order, and before the next Save. A
	// type that changes the files of the step it embeds passes Later on as nil: then they are there
	// when that Save returns. See Options.AsyncSave.
	Later func(write func() (nonFinite []string, err error))
}

// LoadOptions say what is loaded.
type LoadOptions struct {
	WeightsOnly bool // the weights alone, as of the best model at the end of a run
	// Settings takes over the settings of the optimizer too: weight decay, betas, those of each
	// group. See semantics.Rules.OptimizerFromCheckpoint.
	Settings bool
	// KeepOrder leaves the order of the running epoch as it is: a run returns to a checkpoint of an
	// earlier one, and continues with the data that come next. GroupStep.SetRandomState, which may
	// follow, leaves it too.
	KeepOrder bool
}

// LoaderOptions say which loader is wanted, and what the trainer would make it with.
type LoaderOptions struct {
	data.LoaderOptions
	Evaluation *Evaluation // nil: the training set
}

// Evaluation says which evaluation begins.
type Evaluation struct {
	Name      string             // "eval", "eval_a" of several sets, "test"
	Rows      int                // samples of the set; 0: a stream, of which nobody knows
	BatchSize int                // of its loader
	Loss      semantics.EvalLoss // how the step is to average the losses of its batches
	Predict   bool               // the step is to keep its predictions: Trainer.Predict asks for them
	Shared    bool               // it is shared out among the processes, and goes by EvalRound: see [GroupStep]
	Even      bool               // so that all have batches of one size: semantics.Rules.EvenEvalBatches
}

// BatchLoss is the loss of one batch.
type BatchLoss struct {
	Loss    float64 // as the model or the loss function returned it
	Divided float64 // as it is handed to backward; in an evaluation the same as Loss
}
