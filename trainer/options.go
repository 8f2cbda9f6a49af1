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

// Latest, as [Options].ResumeFrom, means the newest whole checkpoint in OutputDir, or a start from
// the beginning if there is none. A program that always sets it can be killed and started again at
// will.
const Latest = "latest"

// SeedZero, as [Options].Seed and DataSeed, is the seed 0, since zero there means the default.
const SeedZero = math.MaxUint64

// Direction says which of two values of a metric is better.
type Direction int

const (
	// ByName decides by the metric's name: a metric that ends in "loss", and cer, wer, mse, mae,
	// rmse and perplexity, are better when lower; everything else when greater.
	ByName Direction = iota
	GreaterIsBetter
	LowerIsBetter
)

// Options configures [New]. The zero value of a field means the default that its comment names; the
// defaults are those of Hugging Face's TrainingArguments unless the comment says otherwise. The
// first ten are what most programs set.
type Options struct {
	// OutputDir is where checkpoints, metrics.jsonl and metrics.csv go. Empty: nothing is written.
	OutputDir string
	// ResumeFrom is the folder of a checkpoint, or [Latest]. Empty: start from the beginning.
	ResumeFrom string
	Epochs     float64 // passes over the training set; 1.5 is one and a half; zero: 3
	BatchSize  int     // samples of a micro-batch; zero: 8
	// LearningRate is the peak rate. Zero: what the step's optimizer was made with, see
	// [About], else 5e-5.
	LearningRate float64
	// Schedule is how the rate changes from update to update. Nil: lr.Linear{}.
	Schedule lr.Schedule
	// Eval is when to evaluate; default: after every epoch if Fit is given a validation set
	// (Hugging Face: never).
	Eval          Trigger
	Save          Trigger // when to write a checkpoint; default: every 500 updates and at the end
	LoadBestAtEnd bool    // end with the weights of the best evaluation
	// Callbacks are values that implement any of the methods of [Hooks]. They are called in this
	// order.
	Callbacks []any

	// How long a run is, and how large its batches.

	// MaxSteps is the number of updates; if positive it decides alone and Epochs must be zero,
	// unless the semantics let it only shorten them.
	MaxSteps int
	// MaxStepsPerEpoch ends every epoch after so many steps, and the plan knows it; LimitBatches
	// after so many micro-batches. FitStream takes neither. LimitEvalBatches evaluates on so many
	// batches of every validation set. Zero: all.
	MaxStepsPerEpoch, LimitBatches, LimitEvalBatches int
	Accumulate                                       int // micro-batches behind one update; zero: 1
	// GlobalBatch is how many samples are behind one update, of all processes together. Accumulate
	// follows from it and must be zero. Epochs are whole global batches: their first samples fill up
	// the last one, or with DropLast it is left out. A run then continues on any number of processes
	// with any BatchSize that divides it so, at the sample where it stood; see docs/distributed.md.
	// Zero: BatchSize times Accumulate times the processes.
	GlobalBatch   int
	EvalBatchSize int // samples of an evaluation batch; zero: 8
	// AutoFindBatchSize tries smaller and smaller batches, nine tenths of the size before, until
	// memory suffices: a run that runs out of memory begins again. The About of the step must say
	// KnowsMemory; see also semantics.Rules.RetryFromTrained. A resumed run takes the size that its
	// checkpoint was made with, and keeps it.
	AutoFindBatchSize bool
	// DivideOnOutOfMemory trains each batch in two parts, then four, ..., from where the memory of
	// the device does not suffice for forward and backward of a whole one, and the run continues: a
	// window is computed again, nothing of the weights, moments, counts or the scale of the log
	// changes, and the parts weigh by their samples, or by what the mean of the loss is over
	// (Counts.Labels); one without any is left out. It is told once, and checkpoints keep it. Only
	// statistics over a batch (BatchNorm) and random numbers are others. An update that does not
	// fit is an error. It is for one process, and the About of the step must say KnowsMemory.
	DivideOnOutOfMemory bool

	// The loop's rules, its random numbers and the rate.

	// Semantics decides the fine points of the loop. The zero value is semantics.Default.
	Semantics semantics.Rules
	Seed      uint64 // of the step's random numbers and of the order of samples; zero: 42
	DataSeed  uint64 // of the order of samples alone; zero: Seed
	// Reproducible, if positive, demands the same bits on every CPU with AVX2, with so many threads
	// in one operator. New fails where the process was not begun for it: torch.Reproducible, or
	// GOTRAINER_REPRODUCIBLE in the environment.
	Reproducible int
	// NonFinite is what happens when a loss, a gradient or a weight is nan or infinite; zero: the
	// run stops, or under the semantics of another trainer warns and continues.
	NonFinite NonFinite
	// Adaptive, instead of Schedule, is a schedule that follows the metric of MetricForBest, such
	// as lr.ReduceLROnPlateau{}: after each evaluation it is told the metric and sets the rate.
	Adaptive lr.Adaptive
	// ScheduleSteps is after how many steps the rate moves, where semantics.Rules.ScheduleBySteps
	// is set; zero: after as many as an epoch has batches.
	ScheduleSteps int

	// Evaluation and the log.

	EvalOnStart   bool    // evaluate before the first update too
	EvalDelay     float64 // no evaluation before so many updates, or epochs where Eval counts epochs
	MetricForBest string  // what the best evaluation is judged by: "accuracy", or "eval_accuracy"; empty: "loss"
	Direction     Direction
	Log           Trigger // when to log the loss; default: every 500 updates
	LogFirst      bool    // log the first update too
	// CountTokens counts the input tokens of the training batches: num_input_tokens_seen in the
	// log, and the speed in tokens. The step decides whether padding counts; its About must say
	// CountsTokens.
	CountTokens bool

	// Checkpoints.

	// SaveFailure is what happens when a checkpoint cannot be written; zero: the run continues and
	// tries again after the next update.
	SaveFailure     SaveFailure
	KeepCheckpoints int // how many checkpoints stay; the best and the newest always do; zero: all
	// AsyncSave has checkpoints written by another goroutine while training continues; only the next
	// update waits until the state is copied. The files are those of an ordinary save. One
	// checkpoint is written at a time: the next save waits for it, see Result.SaveWaited. That it
	// is on the disk, or could not be written, the run learns at the end of a later update: then
	// come AfterSave, uploads and SaveFailure. The last checkpoint is on the disk when Fit returns.
	// The copy takes the memory of the state a second time. The About of the step must say
	// SavesLater.
	AsyncSave bool
	// SaveOnlyModel leaves the moments of the optimizer, the generators and the place in the
	// schedule out of checkpoints, which makes them a third of the size. A run cannot continue from
	// such a checkpoint, unless semantics.Rules.ResumeFromWeights says so.
	SaveOnlyModel bool
	// SaveInterrupted writes a checkpoint when the context of Fit is cancelled, as by SIGTERM, also
	// where Save is Never. With any other Save that is done anyway.
	SaveInterrupted bool
	// TransformersFiles has every checkpoint also hold optimizer.pt, scheduler.pt, rng_state.pth
	// and, of fp16, scaler.pt, so that Hugging Face's Trainer can resume from it. They are as large
	// as the state of the optimizer. The step must be a [TransformersStep], as package engine's
	// are. A checkpoint of transformers is read without any option.
	TransformersFiles bool
	// ForceResume resumes from a checkpoint of another BatchSize, Accumulate, Seed or training set
	// too, or inside an epoch of another Order, which is refused otherwise: the position in the
	// epoch is worked out from the number of updates, and the run is not the one that was
	// interrupted.
	ForceResume bool
	// SkipFingerprint leaves out the look at eight samples of the training set at the beginning of
	// a run that is saved or resumed, by which a resume notices that they are other ones. They are
	// loaded by At, twice each, in two seconds at most (see data.Fingerprint).
	SkipFingerprint bool
	// Overwrite deletes the checkpoints and the log of an earlier run in OutputDir. Otherwise Fit
	// refuses such a folder unless it resumes from a checkpoint in it.
	Overwrite bool
	// IgnoreDataSkip begins the interrupted epoch of a resumed run again at its first batch instead
	// of after the batches already trained on; the count of updates continues, so the epoch in the
	// log jumps back. A resumed run is then not the one that was interrupted.
	IgnoreDataSkip bool
	// Start is where a run begins whose state was loaded by other means than ResumeFrom, such as
	// from the checkpoint of another trainer. Nil: at the beginning, or where ResumeFrom says.
	Start *StartPosition
	// Saver writes the checkpoints of the run in its own way, instead of the trainer, which then
	// neither rotates them nor resumes from them. Save says when. With Group it is called on all
	// processes, and what it keeps of each is its own matter.
	Saver Saver
	// ProcessingClass is saved into every checkpoint and by Trainer.SaveModel, and is uploaded with
	// the model: the tokenizer or image processor of the model (processing_class). The models of
	// package models/auto save theirs by themselves.
	ProcessingClass ProcessingClass
	// Pusher uploads the checkpoints of the run while it continues; nil: they stay here. An upload
	// that fails is a warning, never the end of the run.
	Pusher Pusher
	// PushStrategy is what is uploaded when; zero: the model of every checkpoint.
	PushStrategy PushStrategy
	// PushAlways uploads a checkpoint also while the upload before it is still under way; otherwise
	// it is left out, but for the last one, which is uploaded at the end.
	PushAlways bool

	// Loading.

	// Order is the order of the samples. Nil: data.Shuffled{Seed: DataSeed}, a new permutation each
	// epoch.
	Order     data.Order
	EvalOrder data.Order // of the samples of an evaluation; nil: data.Sequential{}
	DropLast  bool       // leave out the last batch of an epoch if it is smaller than BatchSize
	Workers   int        // goroutines that load and collate; zero: one for each processor, see data.LoaderOptions
	Prefetch  int        // batches that are loaded ahead; zero: twice Workers
	// BadSample is asked about a sample that cannot be loaded; see data.LoaderOptions. Nil: the run
	// fails.
	BadSample func(index int, err error) error
	// NoDispatchBatches fills the end of a pass over a stream, which several processes train on, up to
	// full batches of all with the first samples of the pass: dispatch_batches=False. Otherwise the
	// rest is dealt out evenly. Sets with a length have full batches in any case.
	NoDispatchBatches bool
	// EmptyCacheSteps lets the step give unused memory back to the device before the batches of
	// every so many updates, which costs time and helps where memory is short; zero: never. With
	// AsyncSave it waits for the checkpoint that is being written. The About of the step must say
	// KnowsMemory.
	EmptyCacheSteps int

	// What is shown.

	// Progress is where the progress of the run is shown: one line that is redrawn if it is a
	// terminal, plain lines otherwise. Nil: standard error. io.Discard: nowhere.
	Progress io.Writer
	// Logger is told of the begin and the end of a run, of evaluations, checkpoints and warnings,
	// and at slog.LevelDebug of each row of the log. Nil: nothing is logged; Progress is for
	// people, this is for machines. Where Progress is io.Discard warnings go to standard error
	// then, as do those of processes that are not the main one.
	Logger *slog.Logger
	// LogLevel is the lowest level that the main process logs; nil: slog.LevelInfo. LogLevelReplica
	// is that of the others; nil: slog.LevelWarn.
	LogLevel, LogLevelReplica slog.Leveler
	// LogOnEachNode makes the first process of every machine log at LogLevel, not that of the first
	// machine alone.
	LogOnEachNode bool

	// Several processes.

	// Group is the processes that train together, made by dist.Init: each on its part of every
	// epoch, with the same weights. BatchSize is that of one process. The step must be a
	// [GroupStep], as package engine's are. Nil: this process trains by itself. The caller closes
	// it.
	Group *dist.Group
	// Process says which of several processes of one run this is. Zero: what Group says, or else
	// what RANK, LOCAL_RANK and WORLD_SIZE in the environment say, as torchrun sets them; without
	// them it is alone. Only the main process, of rank 0, shows progress, writes files and uploads.
	Process Process

	stated bool // Process was given, and not read from the environment
}
