package trainer

import (
	"context"

	"github.com/gotrainer/gotrainer/data"
)

// Step does the arithmetic of a run: S is a sample of the data set, B the batch made of samples.
// The loop decides what happens and when; a Step never counts, schedules or touches files of its
// own accord. Package trainer/engine makes a Step from a model and libtorch, package
// trainer/trainertest one that only records its calls.
//
// Six methods are the arithmetic: Collate, Train, Update, Report, Eval and Metrics. A type that
// embeds [BaseStep] needs only these; of the others it implements what it can do, and About says
// so. A type that embeds another Step and overrides a method changes that method and loses nothing
// of the other, but what a Step may be besides: a [SplitStep], a [GroupStep], a [TransformersStep],
// a [NonFiniteFinder] and a [Recycler]. Where the run needs one of the first three, [New] or Fit
// refuses it and says which methods to pass on.
//
// Collate is called by the loader's goroutines, several at a time. All other methods are called
// from one goroutine that is locked to its OS thread while [Trainer.Fit] or [Trainer.Evaluate]
// runs.
type Step[S, B any] interface {
	// About says what the step is and what it can do. It is asked by [New] and at any time after
	// it, and changes nothing.
	About() About

	// Collate makes one batch of samples, at least one, in their order.
	Collate(samples []S) (B, error)

	// Loader makes the loader of the training set or of an evaluation instead of the trainer:
	// get_train_dataloader, get_eval_dataloader and get_test_dataloader of Hugging Face. Nil
	// without an error leaves it to the trainer, which makes a data.Loader with these options.
	Loader(set data.Dataset[S], o LoaderOptions) (BatchLoader[B], error)

	// Count says how large a batch of the training set is. It is asked of all batches of a window
	// before the first of them is trained on.
	Count(batch B) Counts

	// Around carries out a whole run, or an evaluation outside of one: body is all of it, and its
	// error is returned. A step whose library keeps settings by thread, such as the generator that
	// random numbers come from, makes them for the length of body. Calls may nest.
	Around(body func() error) error

	// Seed starts the random numbers, and makes the model if the step is one that does so. It is
	// called before the first batch, and where the semantics want it later.
	Seed(seed uint64, o SeedOptions) error

	// StartLoader is called when a pass over a loader begins: PyTorch's DataLoader then draws one
	// number from the global generator.
	StartLoader(train bool) error

	// ZeroGrad removes all gradients. It is called before a run, since the run before may have been
	// stopped inside a window.
	ZeroGrad() error

	// Train runs forward and backward on one micro-batch and adds its gradient to those of its
	// window.
	Train(ctx context.Context, batch B, w Window) error

	// Clip unscales and clips the gradients of a window, before the BeforeUpdate hooks and Update.
	// A step whose Update does so does nothing here.
	Clip(ctx context.Context) error

	// SetMomentum sets the momentum, or first beta, of the next Update. It is called before each
	// one where the schedule is an lr.MomentumSchedule.
	SetMomentum(momentum float64) error

	// Update ends a window: optimizer step with learning rate lr, zero the gradients. It reports
	// whether weights were changed; false means that loss scaling found an inf or nan and skipped
	// the update.
	Update(ctx context.Context, lr float64) (applied bool, err error)

	// Report returns what has gathered since the last call and starts again. It may wait for the
	// device, so the loop calls it only when there is something to log.
	Report(ctx context.Context) (Report, error)

	// StartEval says which evaluation the next calls of Eval belong to.
	StartEval(e Evaluation) error

	// Eval adds one batch to the running evaluation, without gradients and in evaluation mode.
	Eval(ctx context.Context, batch B) error

	// Metrics ends the running evaluation, returns its numbers ("loss" among them) and starts
	// again. Where ctx has ended, the evaluation was interrupted: nobody wants its numbers, and an
	// error is the outcome.
	Metrics(ctx context.Context) (Metrics, error)

	// Save writes the step's files (model.safetensors, optimizer.safetensors, generator state) into
	// the existing folder dir.
	Save(dir string, o SaveOptions) error

	// Load reads them back, and changes nothing if any of them does not fit.
	Load(dir string, o LoadOptions) error

	// NonFinite names the weights that hold a nan or an infinity. It is asked before every
	// checkpoint and at the end of a run.
	NonFinite() ([]string, error)

	// EmptyCache gives memory that is kept for later back to the device: torch.cuda.empty_cache().
	// It is not called while what a save has left to SaveOptions.Later is written.
	EmptyCache() error

	// OutOfMemory tells whether an error means that the memory of the device does not suffice.
	OutOfMemory(err error) bool
}
