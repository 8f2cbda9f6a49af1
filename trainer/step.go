package trainer

import (
	"context"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// Metrics are the numbers of one evaluation by their bare names: "loss", "accuracy", "cer". Logs
// and checkpoints put the name of the evaluation set before them, as Hugging Face does:
// "eval_loss".
type Metrics map[string]float64

// Step does the arithmetic of a run: S is a sample of the data set, B the batch made of samples.
// The loop decides what happens and when; a Step never counts, schedules or touches files of its
// own accord. Package trainer/engine makes a Step from a model and libtorch, package
// trainer/trainertest one that only records its calls.
//
// Collate is called by the loader's goroutines, several at a time. All other methods, of the
// optional interfaces below too, are called from one goroutine that is locked to its OS thread
// while [Trainer.Fit] or [Trainer.Evaluate] runs.
type Step[S, B any] interface {
	// Collate makes one batch of samples, at least one, in their order.
	Collate(samples []S) (B, error)

	// Train runs forward and backward on one micro-batch and adds its gradient to those of its
	// window.
	Train(ctx context.Context, batch B, w Window) error

	// Update ends a window: unscale and clip (unless [Clipper] has), optimizer step with learning
	// rate lr, zero the gradients. It reports whether weights were changed; false means that loss
	// scaling found an inf or nan and skipped the update.
	Update(ctx context.Context, lr float64) (applied bool, err error)

	// Report returns what has gathered since the last call and starts anew. It may wait for the
	// device, so the loop calls it only when there is something to log.
	Report(ctx context.Context) (Report, error)

	// Eval adds one batch to the running evaluation, without gradients and in evaluation mode.
	Eval(ctx context.Context, batch B) error

	// Metrics ends the running evaluation, returns its numbers ("loss" among them) and starts anew.
	Metrics(ctx context.Context) (Metrics, error)
}

// Window says where a micro-batch stands in its accumulation window, the micro-batches behind one
// update.
type Window struct {
	Index   int     // 0, 1, ... within the window
	Len     int     // micro-batches in this window; a short last window has its own length
	Divisor float64 // what a mean loss is divided by before backward; the semantics decide whether it is Len
	Items   int64   // labelled items of the whole window where the step counts them (see [ItemCounter]); 0: not counted

	LearningRate float64 // of the update that ends the window: what Update will be told
}

// Report is what a [Step] tells for the log.
type Report struct {
	LossSum float64 // sum of the losses handed to backward (already divided) since the last report
	// total norm before clipping at the last update; NaN-free only if the gradients are; negative:
	// none was computed
	GradNorm float64
}

// ItemCounter is implemented by a [Step] whose loss is averaged over the items of a whole window,
// such as tokens. Where it is, the loop fetches a window's batches before its first forward.
type ItemCounter[B any] interface {
	CountItems(batch B) int64
}

// Clipper is implemented by a [Step] that unscales and clips gradients in a call of its own, which
// comes before the BeforeUpdate hooks, as in Hugging Face's Trainer. Other steps clip in Update.
type Clipper interface {
	Clip(ctx context.Context) error
}

// Seeder is implemented by a [Step] that draws random numbers. Fit calls Seed before the first
// batch.
type Seeder interface {
	Seed(seed uint64) error
}

// LoaderObserver is implemented by a [Step] that must do as PyTorch's DataLoader does when an
// iterator is made: draw one number from the global generator.
type LoaderObserver interface {
	StartLoader(train bool) error
}

// Stateful is implemented by a [Step] that can be saved and resumed. Save writes its files
// (model.safetensors, optimizer.safetensors, generator state) into the existing folder dir; Load
// reads them back and changes nothing if any of them does not fit.
type Stateful interface {
	Save(dir string) error
	Load(dir string) error
}

// LearningRater is implemented by a [Step] whose optimizer was made with a learning rate. It is the
// peak rate of the run where [Options].LearningRate is zero.
type LearningRater interface {
	LearningRate() float64
}

// LossFilter is implemented by a [Step] that can keep nan and inf out of Report.LossSum, as
// logging_nan_inf_filter of Hugging Face does. Where the semantics ask for it the loop calls
// FilterLoss before each window: a micro-batch of that window whose loss is nan or inf then adds
// sum/(1+updates) to the sum instead, sum being what has gathered since the last report. Gradients
// are not touched.
type LossFilter interface {
	FilterLoss(updates int)
}

// Describer is implemented by a [Step] that can say in a few words what it trains: "bert
// classifier, 4.4 M parameters on cpu". It stands in the header of a run.
type Describer interface {
	Describe() string
}

// FusedUpdater is implemented by a [Step] that knows whether its optimizer is fused: whether an
// update that loss scaling skips is left out inside the kernel. See
// semantics.Rules.FusedHidesSkips.
type FusedUpdater interface{ FusedUpdate() bool }

// SettingsLoader is implemented by a [Step] whose Load can take over the settings of the optimizer
// too: weight decay, betas, those of each group. See semantics.Rules.OptimizerFromCheckpoint.
type SettingsLoader interface {
	LoadWithSettings(dir string) error
}

// WeightLoader is implemented by a [Step] that can take over the weights alone of a saved state, as
// loading the best model at the end of a run does.
type WeightLoader interface {
	LoadWeights(dir string) error
}

// WeightSaver is implemented by a [Step] that can save its weights alone, for
// [Options].SaveOnlyModel: SaveWeights writes model.safetensors into the existing folder dir.
type WeightSaver interface {
	SaveWeights(dir string) error
}

// Evaluation says which evaluation begins.
type Evaluation struct {
	Name      string             // "eval", "eval_a" of several sets, "test"
	Rows      int                // samples of the set; 0: a stream, of which nobody knows
	BatchSize int                // of its loader
	Loss      semantics.EvalLoss // how the step is to average the losses of its batches
	Predict   bool               // the step is to keep its predictions: Trainer.Predict asks for them
	Shared    bool               // it is shared out among the processes, and goes by EvalRound: see [EvalSharer]
	Even      bool               // so that all have batches of one size: semantics.Rules.EvenEvalBatches
}

// EvalStarter is implemented by a [Step] that wants to know which evaluation the following calls of
// Eval belong to.
type EvalStarter interface {
	StartEval(e Evaluation) error
}

// TokenCounter is implemented by a [Step] that can count the input tokens of a batch, for
// num_input_tokens_seen and the speed in tokens.
type TokenCounter[B any] interface {
	CountTokens(batch B) int64
}

// FlopCounter is implemented by a [Step] that can estimate the floating-point operations of forward
// and backward over a batch: floating_point_ops of Hugging Face, total_flos in the state.
type FlopCounter[B any] interface {
	CountFlops(batch B) float64
}

// MomentumSetter is implemented by a [Step] whose optimizer has a momentum, or first beta, that a
// schedule may move. Where the schedule is an lr.MomentumSchedule the loop calls SetMomentum before
// each Update.
type MomentumSetter interface {
	SetMomentum(momentum float64) error
}
