package trainer

import (
	"io"
	"log/slog"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// Latest, as [Options].ResumeFrom, means the newest whole checkpoint in OutputDir, or a start from
// the beginning if there is none. A program that always sets it can be killed and started again at
// will.
const Latest = "latest"

// Direction says which of two values of a metric is better.
type Direction int

const (
	// ByName decides by the metric's name: a metric that ends in "loss", and cer and wer, are
	// better when lower; everything else when greater.
	ByName Direction = iota
	GreaterIsBetter
	LowerIsBetter
)

// Options configures [New]. The zero value of a field means the default that its comment names; the
// defaults are those of Hugging Face's TrainingArguments unless the comment says otherwise.
type Options struct {
	// OutputDir is where checkpoints, metrics.jsonl and metrics.csv go. Empty: nothing is written.
	OutputDir string

	Epochs float64 // passes over the training set; 1.5 is one and a half; zero: 3
	// updates; if positive it decides alone and Epochs must be zero, unless the semantics let it
	// only shorten them
	MaxSteps int

	// MaxStepsPerEpoch ends every epoch after so many steps, and the plan knows it; LimitBatches
	// after so many micro-batches. LimitEvalBatches evaluates on so many batches of every
	// validation set. Zero: all.
	MaxStepsPerEpoch, LimitBatches, LimitEvalBatches int

	BatchSize     int // samples of a micro-batch; zero: 8
	EvalBatchSize int // samples of an evaluation batch; zero: 8
	Accumulate    int // micro-batches behind one update; zero: 1. A short last window of an epoch is an update too.

	// LearningRate is the peak rate. Zero: what the step's optimizer was made with, see
	// [About], else 5e-5.
	LearningRate float64
	// Schedule is how the rate changes from update to update. Nil: lr.Linear{}.
	Schedule lr.Schedule
	// ScheduleSteps is after how many steps the rate moves, where semantics.Rules.ScheduleBySteps
	// is set; zero: after as many as an epoch has batches.
	ScheduleSteps int
	// Adaptive, instead of Schedule, is a schedule that follows the metric of MetricForBest, such
	// as lr.ReduceLROnPlateau{}: after each evaluation it is told the metric and says how the rate
	// goes on.
	Adaptive lr.Adaptive

	Seed     uint64 // of the step's random numbers and of the order of samples; zero: 42
	DataSeed uint64 // of the order of samples alone; zero: Seed

	// when to evaluate; default: after every epoch if Fit is given a validation set (Hugging Face:
	// never)
	Eval        Trigger
	Save        Trigger // when to write a checkpoint; default: every 500 updates and at the end
	Log         Trigger // when to log the loss; default: every 500 updates
	EvalOnStart bool    // evaluate before the first update too
	EvalDelay   float64 // no evaluation before so many updates, or epochs where Eval counts epochs
	LogFirst    bool    // log the first update too

	KeepCheckpoints int // how many checkpoints stay; the best and the newest always do; zero: all
	// SaveOnlyModel leaves the moments of the optimizer, the generators and the place in the
	// schedule out of checkpoints, which makes them a third of the size. A run cannot go on from
	// such a checkpoint, unless semantics.Rules.ResumeFromWeights says so.
	SaveOnlyModel bool
	LoadBestAtEnd bool   // end with the weights of the best evaluation
	MetricForBest string // what the best evaluation is judged by: "accuracy", or "eval_accuracy"; empty: "loss"
	Direction     Direction

	// ResumeFrom is the folder of a checkpoint, or [Latest]. Empty: start from the beginning.
	ResumeFrom string
	// Start is where a run begins whose state was loaded by other means than ResumeFrom, such as
	// from the checkpoint of another trainer. Nil: at the beginning, or where ResumeFrom says.
	Start *StartPosition
	// IgnoreDataSkip begins the interrupted epoch of a resumed run again at its first batch instead
	// of behind those that it was trained on; the count of updates goes on, so the epoch in the log
	// jumps back. A resumed run is then not the one that was interrupted.
	IgnoreDataSkip bool
	// Overwrite deletes the checkpoints and the log of an earlier run in OutputDir. Otherwise Fit
	// refuses such a folder unless it resumes.
	Overwrite bool

	// Saver writes the checkpoints of the run in its own way, in place of the trainer, which then
	// neither rotates them nor resumes from them. Save says when.
	Saver Saver

	// EvalOrder is the order of the samples of an evaluation. Nil: data.Sequential{}.
	EvalOrder data.Order
	// Order is the order of the samples. Nil: data.Shuffled{Seed: DataSeed}, a new permutation each
	// epoch.
	Order data.Order

	// CountTokens counts the input tokens of the training batches: num_input_tokens_seen in the
	// log, and the speed in tokens. The step decides which tokens count, all or those that are not
	// padding; its About must say CountsTokens.
	CountTokens bool
	// EmptyCacheSteps lets the step give unused memory back to the device before the batches of
	// every so many updates, which costs time and helps where memory is short; zero: never. The
	// About of the step must say KnowsMemory.
	EmptyCacheSteps int

	// AutoFindBatchSize tries smaller and smaller batches, nine tenths of the size before, until
	// memory suffices: a run that runs out of memory begins anew. The About of the step must say
	// KnowsMemory; see also semantics.Rules.RetryFromTrained. A resumed run takes the size that its
	// checkpoint was made with, and keeps it.
	AutoFindBatchSize bool

	DropLast bool // leave out the last batch of an epoch if it is smaller than BatchSize
	Workers  int  // goroutines that load and collate; zero: one for each processor
	Prefetch int  // batches that are loaded ahead; zero: twice Workers
	// asked about a sample that cannot be loaded; see data.LoaderOptions. Nil: the run fails
	BadSample func(index int, err error) error

	// Semantics decides the fine points of the loop. The zero value is semantics.Default.
	Semantics semantics.Rules

	// Callbacks are the hooks: values that implement one or more of the interfaces in hooks.go.
	// They are called in this order.
	Callbacks []any

	// Progress is where the progress of the run is shown: one line that is redrawn if it is a
	// terminal, plain lines otherwise. Nil: standard error. io.Discard: nowhere.
	Progress io.Writer

	// Logger is told of the begin and the end of a run, of evaluations, checkpoints and warnings,
	// and at slog.LevelDebug of each row of the log. Nil: nothing is logged; Progress is for
	// people, this is for machines.
	Logger *slog.Logger
	// LogLevel is the lowest level that the main process logs; nil: slog.LevelInfo. LogLevelReplica
	// is that of the others; nil: slog.LevelWarn.
	LogLevel, LogLevelReplica slog.Leveler

	// Group is the processes that train together, made by dist.Init: each on its part of every
	// epoch, with the same weights. BatchSize is that of one process. The step must be a
	// [GroupStep], as package engine's are. Nil: this process trains by itself. The caller closes
	// it.
	Group *dist.Group

	// Process says which of several processes of one run this is. Zero: what Group says, or else
	// what RANK, LOCAL_RANK and WORLD_SIZE in the environment say, as torchrun sets them; without
	// them it is alone. Only the main process, of rank 0, shows progress, writes files and uploads.
	Process Process

	// Pusher uploads the checkpoints of the run while it goes on; nil: they stay here. An upload
	// that fails is a warning, never the end of the run.
	Pusher Pusher
	// PushStrategy is what is uploaded when; zero: the model of every checkpoint.
	PushStrategy PushStrategy
	// PushAlways uploads a checkpoint also while the upload before it is still under way; otherwise
	// it is left out.
	PushAlways bool
}
