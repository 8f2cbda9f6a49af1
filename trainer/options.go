package trainer

import (
	"io"
	"log/slog"
	"math"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// Latest, as [Options].ResumeFrom, means the newest complete checkpoint in OutputDir. If there is
// none, the run starts from the beginning. A program that always sets it can be killed and
// restarted at any time.
const Latest = "latest"

// SeedZero, as [Options].Seed or DataSeed, means the seed 0. It exists because a zero in those
// fields means the default.
const SeedZero = math.MaxUint64

// Direction says which of two values of a metric is better.
type Direction int

const (
	// ByName decides by the metric's name. Lower is better for names that end in "loss" and for
	// cer, wer, mse, mae, rmse and perplexity; greater is better for everything else.
	ByName Direction = iota
	GreaterIsBetter
	LowerIsBetter
)

// Options configures [New]. The zero value of a field means the default named in its comment. The
// defaults are those of Hugging Face's TrainingArguments unless the comment says otherwise. Most
// programs set only some of the first ten fields.
type Options struct {
	// OutputDir is the folder for checkpoints, metrics.jsonl and metrics.csv. Empty: nothing is
	// written.
	OutputDir string
	// ResumeFrom is the folder of a checkpoint, or [Latest]. Empty: start from the beginning.
	ResumeFrom string
	Epochs     float64 // passes over the training set; 1.5 is one and a half; zero: 3
	BatchSize  int     // samples in a micro-batch; zero: 8
	// LearningRate is the peak learning rate. Zero: the rate that the step's optimizer was made
	// with (see [About]) or, if it has none, 5e-5.
	LearningRate float64
	// Schedule changes the learning rate from update to update. Nil: lr.Linear{}.
	Schedule lr.Schedule
	// Eval says when to evaluate. Default: after every epoch if Fit is given a validation set
	// (Hugging Face: never).
	Eval          Trigger
	Save          Trigger // when to write a checkpoint; default: every 500 updates and at the end
	LoadBestAtEnd bool    // finish with the weights of the best evaluation
	// Callbacks are values that implement any of the methods of [Hooks]. They are called in the
	// order given here.
	Callbacks []any

	// How long a run is, and how large its batches.

	// MaxSteps is the number of updates. If positive, it alone decides how long the run is, and
	// Epochs must be zero, except under semantics in which MaxSteps can only shorten a run.
	MaxSteps int
	// MaxStepsPerEpoch ends every epoch after this many steps, and the plan of the run takes it
	// into account. LimitBatches ends every epoch after this many micro-batches. FitStream accepts
	// neither. LimitEvalBatches uses only this many batches of every validation set. Zero: no
	// limit.
	MaxStepsPerEpoch, LimitBatches, LimitEvalBatches int
	Accumulate                                       int // micro-batches per update; zero: 1
	// GlobalBatch is the number of samples per update, over all processes. Accumulate is derived
	// from it and must be zero. Every epoch consists of whole global batches: the last one is
	// filled up with the first samples of the epoch or, with DropLast, left out. A run can then be
	// continued on any number of processes, with any BatchSize that divides the global batch among
	// them, at the sample where it stopped; see docs/distributed.md. Zero: BatchSize times
	// Accumulate times the number of processes.
	GlobalBatch   int
	EvalBatchSize int // samples in an evaluation batch; zero: 8
	// AutoFindBatchSize starts over with smaller batches when a run runs out of memory. Each size
	// is nine tenths of the previous one, until the batches fit. The About of the step must have
	// KnowsMemory set; see also semantics.Rules.RetryFromTrained. A resumed run uses the size that
	// its checkpoint was made with, and keeps it.
	AutoFindBatchSize bool
	// DivideOnOutOfMemory continues a run that runs out of device memory in a forward or backward
	// pass. From then on each batch is trained in two parts, then four, and so on. The window is
	// computed again; the weights, moments, counts and the scale of the logged loss are not
	// affected. Each part is weighted by its number of samples or, if the loss is a mean over
	// something else, by Counts.Labels; a part without labels is left out. Only statistics over a
	// batch (BatchNorm) and random numbers differ from those of whole batches.
	//
	// The division is reported once and recorded in checkpoints. Running out of memory in the
	// optimizer's update is still an error. This option is for a single process, and the About of
	// the step must have KnowsMemory set.
	DivideOnOutOfMemory bool

	// Semantics, random numbers and the learning rate.

	// Semantics decides the fine points of the loop. The zero value is semantics.Default.
	Semantics semantics.Rules
	Seed      uint64 // seed of the step's random numbers and of the order of samples; zero: 42
	DataSeed  uint64 // seed of the order of samples alone; zero: Seed
	// Reproducible, if positive, demands the same bits on every CPU with AVX2, using this many
	// threads per operator. New fails unless the process was started for this, with
	// torch.Reproducible or with GOTRAINER_REPRODUCIBLE in the environment.
	Reproducible int
	// NonFinite says what happens when a loss, a gradient or a weight is NaN or infinite. Zero: the
	// run stops or, under the semantics of another trainer, warns and continues.
	NonFinite NonFinite
	// Adaptive is used instead of Schedule. It is a schedule that follows the metric of
	// MetricForBest, such as lr.ReduceLROnPlateau{}: after each evaluation it receives the metric
	// and sets the learning rate.
	Adaptive lr.Adaptive
	// ScheduleSteps is the number of steps after which the learning rate changes, if
	// semantics.Rules.ScheduleBySteps is set. Zero: the number of batches in an epoch.
	ScheduleSteps int

	// Evaluation and the log.

	EvalOnStart   bool    // also evaluate before the first update
	EvalDelay     float64 // no evaluation before this many updates, or epochs if Eval counts epochs
	MetricForBest string  // metric that decides the best evaluation: "accuracy" or "eval_accuracy"; empty: "loss"
	Direction     Direction
	Log           Trigger // when to log the loss; default: every 500 updates
	LogFirst      bool    // also log the first update
	// CountTokens counts the input tokens of the training batches. The log then has
	// num_input_tokens_seen and the speed in tokens. The step decides whether padding counts. Its
	// About must have CountsTokens set.
	CountTokens bool

	// Checkpoints.

	// SaveFailure says what happens when a checkpoint cannot be written. Zero: the run continues
	// and tries again after the next update.
	SaveFailure     SaveFailure
	KeepCheckpoints int // how many checkpoints to keep; the best and the newest are always kept; zero: all
	// AsyncSave writes checkpoints in another goroutine while training continues; only the next
	// update waits until the state has been copied. The files are the same as those of an ordinary
	// save.
	//
	// Only one checkpoint is written at a time: the next save waits for it (see Result.SaveWaited).
	// The run learns at the end of a later update whether the checkpoint is on the disk or could
	// not be written. AfterSave, uploads and SaveFailure come then. The last checkpoint is on the
	// disk when Fit returns.
	//
	// The copy takes as much memory again as the state. The About of the step must have SavesLater
	// set.
	AsyncSave bool
	// SaveOnlyModel leaves the optimizer's moments, the random generators and the position in the
	// schedule out of checkpoints, which makes them a third of the size. A run cannot be resumed
	// from such a checkpoint unless semantics.Rules.ResumeFromWeights allows it.
	SaveOnlyModel bool
	// SaveInterrupted writes a checkpoint when the context of Fit is cancelled, for example by
	// SIGTERM, even if Save is Never. With any other Save this is always done.
	SaveInterrupted bool
	// TransformersFiles also writes optimizer.pt, scheduler.pt, rng_state.pth and, with fp16,
	// scaler.pt into every checkpoint, so that Hugging Face's Trainer can resume from it. These
	// files are as large as the optimizer's state. The step must be a [TransformersStep], as those
	// of package engine are. Reading a checkpoint of transformers needs no option.
	TransformersFiles bool
	// ForceResume allows resuming from a checkpoint with another BatchSize, Accumulate, Seed or
	// training set or, inside an epoch, another Order. Without it this is refused. The position in
	// the epoch is worked out from the number of updates, and the run is not a continuation of the
	// interrupted one.
	ForceResume bool
	// SkipFingerprint turns off a check: at the beginning of a run that is saved or resumed, eight
	// samples of the training set are examined so that a resume notices if the data have changed.
	// The samples are loaded by At, twice each, in at most two seconds (see data.Fingerprint).
	SkipFingerprint bool
	// Overwrite deletes the checkpoints and the log of an earlier run in OutputDir. Without it, Fit
	// refuses such a folder unless it resumes from a checkpoint there.
	Overwrite bool
	// IgnoreDataSkip makes a resumed run start the interrupted epoch again at its first batch,
	// rather than after the batches already trained on. The count of updates continues, so the
	// epoch in the log jumps back. Such a run is not a continuation of the interrupted one.
	IgnoreDataSkip bool
	// Start is the position at which to begin a run whose state was not loaded by ResumeFrom but in
	// some other way, such as from the checkpoint of another trainer. Nil: begin at the beginning,
	// or where ResumeFrom says.
	Start *StartPosition
	// Saver replaces the trainer's own way of writing checkpoints. The trainer then neither deletes
	// old checkpoints nor resumes from them. Save says when it is called. With Group it is called
	// on all processes, and decides for itself what to keep of each.
	Saver Saver
	// ProcessingClass is the tokenizer or image processor of the model (processing_class). It is
	// saved in every checkpoint and by Trainer.SaveModel, and uploaded with the model. The models
	// of package models/auto save theirs by themselves.
	ProcessingClass ProcessingClass
	// Pusher uploads the checkpoints of the run while training continues. An upload that fails
	// causes a warning and never ends the run. Nil: nothing is uploaded.
	Pusher Pusher
	// PushStrategy says what is uploaded and when. Zero: the model of every checkpoint.
	PushStrategy PushStrategy
	// PushAlways uploads every checkpoint, even if the previous upload is still running. Without
	// it, such a checkpoint is not uploaded, except for the last one, which is uploaded at the end.
	PushAlways bool

	// Loading.

	// Order is the order of the training samples. Nil: data.Shuffled{Seed: DataSeed}, a new
	// permutation for each epoch.
	Order     data.Order
	EvalOrder data.Order // order of the samples of an evaluation; nil: data.Sequential{}
	DropLast  bool       // leave out the last batch of an epoch if it is smaller than BatchSize
	Workers   int        // goroutines that load and collate; zero: one per processor, see data.LoaderOptions
	Prefetch  int        // batches loaded ahead; zero: twice Workers
	// BadSample is called with the index of a sample that cannot be loaded; see data.LoaderOptions.
	// Nil: the run fails.
	BadSample func(index int, err error) error
	// NoDispatchBatches applies when several processes train on a stream. It fills up the end of a
	// pass with the first samples of the pass so that all processes have full batches:
	// dispatch_batches=False. Without it, the remaining samples are divided evenly. Data sets with
	// a length always have full batches.
	NoDispatchBatches bool
	// EmptyCacheSteps makes the step return unused memory to the device once every this many
	// updates, before their batches. That costs time, but helps if memory is short. With AsyncSave
	// it waits for the checkpoint that is being written. The About of the step must have
	// KnowsMemory set. Zero: never.
	EmptyCacheSteps int

	// What is shown.

	// Progress is where the progress of the run is shown: a single line that is redrawn if it is a
	// terminal, plain lines otherwise. Nil: standard error. io.Discard: nowhere.
	Progress io.Writer
	// Logger receives the beginning and the end of the run, evaluations, checkpoints and warnings,
	// and, at slog.LevelDebug, each row of the log. Progress is meant for people, Logger for
	// machines. Nil: nothing is logged. If Logger is nil and Progress is io.Discard, warnings go to
	// standard error, as do those of processes other than the main one.
	Logger *slog.Logger
	// LogLevel is the lowest level that the main process logs. Nil: slog.LevelInfo. LogLevelReplica
	// is the lowest level that the other processes log. Nil: slog.LevelWarn.
	LogLevel, LogLevelReplica slog.Leveler
	// LogOnEachNode makes the first process of every machine log at LogLevel, not only that of the
	// first machine.
	LogOnEachNode bool

	// Several processes.

	// Group is the group of processes that train together, made by dist.Init. All have the same
	// weights, and each trains on its part of every epoch. BatchSize is that of a single process.
	// The step must be a [GroupStep], as those of package engine are. The caller closes the group.
	// Nil: this process trains alone.
	Group *dist.Group
	// Process says which process of the run this one is. Zero: what Group says or, without a Group,
	// what RANK, LOCAL_RANK and WORLD_SIZE say in the environment, as set by torchrun; without
	// them, the process is alone. Only the main process, with rank 0, shows progress, writes files
	// and uploads.
	Process Process

	processSet bool // Process was set by the caller, not read from the environment
}
