package trainer

import (
	"context"

	"github.com/gotrainer/gotrainer/data"
)

// Step does the arithmetic of a run. S is a sample of the data set, and B is a batch made of
// samples. The loop decides what happens and when; a Step never counts, schedules or touches files
// on its own. Package trainer/engine makes a Step from a model and libtorch; the Step of package
// trainer/trainertest only records its calls.
//
// Six methods do the arithmetic: Collate, Train, Update, Report, Eval and Metrics. A type that
// embeds [BaseStep] needs only these. It implements whichever of the others it supports, and About
// says which.
//
// A type that embeds another Step and overrides a method changes only that method. It does not
// inherit the optional interfaces of the embedded Step: [SplitStep], [GroupStep],
// [TransformersStep], [NonFiniteFinder] and [Recycler]. If the run needs one of the first three,
// [New] or Fit refuses the type and says which methods to forward.
//
// Collate is called by the loader's goroutines, several at a time. All other methods are called
// from a single goroutine, which is locked to its OS thread while [Trainer.Fit] or
// [Trainer.Evaluate] runs.
type Step[S, B any] interface {
	// About says what the step is and what it can do. [New] calls it, and it may be called at any
	// time afterwards. It changes nothing.
	About() About

	// Collate makes a batch of one or more samples, in their order.
	Collate(samples []S) (B, error)

	// Loader makes the loader of the training set or of an evaluation: get_train_dataloader,
	// get_eval_dataloader and get_test_dataloader of Hugging Face. If it returns nil without an
	// error, the trainer makes a data.Loader with these options.
	Loader(set data.Dataset[S], o LoaderOptions) (BatchLoader[B], error)

	// Count says how large a batch of the training set is. It is called for all batches of a window
	// before the first of them is trained on.
	Count(batch B) Counts

	// Around runs body, which is a whole run or an evaluation outside of a run, and returns its
	// error. A step whose library keeps settings per thread, such as the default random generator,
	// sets them while body runs. Calls may be nested.
	Around(body func() error) error

	// Seed seeds the random numbers and, if About.MakesModel is set, makes the model. It is called
	// before the first batch, and again where the semantics require it.
	Seed(seed uint64, o SeedOptions) error

	// StartLoader is called when a pass over a loader begins. At that point PyTorch's DataLoader
	// draws one number from the global generator.
	StartLoader(train bool) error

	// ZeroGrad removes all gradients. It is called before a run, since an earlier run may have been
	// stopped inside a window.
	ZeroGrad() error

	// Train runs the forward and the backward pass on one micro-batch and adds its gradient to that
	// of its window.
	Train(ctx context.Context, batch B, w Window) error

	// Clip unscales and clips the gradients of a window, before the BeforeUpdate hooks and Update.
	// If Update does this, Clip does nothing.
	Clip(ctx context.Context) error

	// SetMomentum sets the momentum, or the first beta, of the next Update. If the schedule is an
	// lr.MomentumSchedule, it is called before each Update.
	SetMomentum(momentum float64) error

	// Update ends a window: it makes an optimizer step with learning rate lr and clears the
	// gradients. It reports whether weights were changed; false means that loss scaling found an
	// infinity or NaN and skipped the update.
	Update(ctx context.Context, lr float64) (applied bool, err error)

	// Report returns what has accumulated since the last call and starts over. It may wait for the
	// device, so the loop calls it only when there is something to log.
	Report(ctx context.Context) (Report, error)

	// StartEval says which evaluation the following calls of Eval belong to.
	StartEval(e Evaluation) error

	// Eval adds one batch to the running evaluation, without gradients and in evaluation mode.
	Eval(ctx context.Context, batch B) error

	// Metrics ends the running evaluation, returns its numbers ("loss" among them) and starts over.
	// If ctx is done, the evaluation was interrupted and its numbers are not needed; Metrics then
	// returns an error.
	Metrics(ctx context.Context) (Metrics, error)

	// Save writes the step's files (model.safetensors, optimizer.safetensors, generator state) into
	// dir, an existing folder.
	Save(dir string, o SaveOptions) error

	// Load reads the files written by Save. If any of them does not fit, it changes nothing.
	Load(dir string, o LoadOptions) error

	// NonFinite names the weights that hold a NaN or an infinity. It is called before every
	// checkpoint and at the end of a run.
	NonFinite() ([]string, error)

	// EmptyCache returns cached memory to the device: torch.cuda.empty_cache(). It is not called
	// while the writes that a save left to SaveOptions.Later are running.
	EmptyCache() error

	// OutOfMemory reports whether err means that the device ran out of memory.
	OutOfMemory(err error) bool
}
