package pymarlin

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/dist"
)

// TrainerArguments are the hyperparameters of a run: pymarlin.core.trainer.TrainerArguments. The
// zero value has PyMarlin's defaults; switches that are on by default are therefore named after
// what turns them off. [TrainerArgumentsFromConfig] reads them from a configuration under their
// Python names, which are the tags.
type TrainerArguments struct {
	Epochs int  `config:"epochs"`   // zero: 1; for an explicit zero in a configuration, see [Options.Exact]
	NoGPU  bool `config:"!use_gpu"` // train on the CPU even if there is a GPU

	TrainBatchSize    int `config:"train_batch_size"`     // samples per update; zero: 1
	GPUBatchSizeLimit int `config:"gpu_batch_size_limit"` // at most this many samples per forward pass; zero: 512
	ValBatchSize      int `config:"val_batch_size"`       // zero: 1

	// at most this many updates per epoch; zero: no limit
	MaxTrainStepsPerEpoch int `config:"max_train_steps_per_epoch"`
	MaxValStepsPerEpoch   int `config:"max_val_steps_per_epoch"` // at most this many batches of each validation set; zero: all

	NoClipGrads bool    `config:"!clip_grads"`
	MaxGradNorm float64 `config:"max_grad_norm"` // zero: 1; for an explicit zero in a configuration, see [Options.Exact]

	// ResetOptimizersSchedulers makes new optimizers and schedulers after a checkpoint has been
	// loaded, for the remaining epochs.
	ResetOptimizersSchedulers bool `config:"reset_optimizers_schedulers"`

	CheckpointerArgs CheckpointerArguments `config:"checkpointer_args"`
	// nil: those of Options.Group; otherwise they must be the same
	DistributedTrainingArgs *DistributedTrainingArguments `config:"distributed_training_args"`

	Writers       []string            `config:"writers"` // nil: stdout and tensorboard; empty: none. See [BuildWriter]
	CustomWriters []Writer            // added to these
	StatsArgs     StatInitArguments   `config:"stats_args"`
	WriterArgs    WriterInitArguments `config:"writer_args"`
	DisableTqdm   bool                `config:"disable_tqdm"` // no progress line
	LogLevel      string              `config:"log_level"`    // DEBUG, INFO, WARNING, ERROR or CRITICAL; empty: INFO
	Backend       string              `config:"backend"`      // see [BuildTrainerBackend]; empty: sp

	zeroEpochs, zeroGradNorm bool // the configuration explicitly says 0
}

// withDefaults fills in the defaults of zero fields.
func (a TrainerArguments) withDefaults() TrainerArguments {
	if !a.zeroEpochs {
		a.Epochs = cmp.Or(a.Epochs, 1)
	}
	if !a.zeroGradNorm {
		a.MaxGradNorm = cmp.Or(a.MaxGradNorm, 1)
	}
	a.TrainBatchSize, a.ValBatchSize = cmp.Or(a.TrainBatchSize, 1), cmp.Or(a.ValBatchSize, 1)
	a.GPUBatchSizeLimit = cmp.Or(a.GPUBatchSizeLimit, 512)
	a.LogLevel, a.Backend = cmp.Or(a.LogLevel, "INFO"), cmp.Or(a.Backend, "sp")
	if a.Writers == nil {
		a.Writers = []string{"stdout", "tensorboard"}
	}
	a.CheckpointerArgs = a.CheckpointerArgs.withDefaults()
	a.StatsArgs = a.StatsArgs.withDefaults()
	a.WriterArgs = a.WriterArgs.withDefaults()
	return a
}

// ErrArgument is wrapped by the errors about invalid arguments.
var ErrArgument = errors.New("argument not allowed")

func argumentf(format string, args ...any) error {
	return fmt.Errorf("pymarlin: %w: "+format, append([]any{ErrArgument}, args...)...)
}

// check refuses arguments with which PyMarlin would fail and, unless exact is set, those that make
// no sense.
func (a TrainerArguments) check(exact bool) error {
	if !exact && a.Epochs < 1 {
		return argumentf("epochs is %d; want a positive number", a.Epochs)
	}
	for name, value := range map[string]int{
		"TrainBatchSize": a.TrainBatchSize, "GPUBatchSizeLimit": a.GPUBatchSizeLimit, "ValBatchSize": a.ValBatchSize,
		"MaxTrainStepsPerEpoch": a.MaxTrainStepsPerEpoch, "MaxValStepsPerEpoch": a.MaxValStepsPerEpoch,
		"StatsArgs.LogSteps": a.StatsArgs.LogSteps, "StatsArgs.LogModelSteps": a.StatsArgs.LogModelSteps,
		"CheckpointerArgs.Period":   a.CheckpointerArgs.Period,
		"WriterArgs.HistogramSteps": a.WriterArgs.HistogramSteps,
	} {
		if value < 0 {
			return argumentf("TrainerArguments.%s is %d; want at least 1, or 0 for the default", name, value)
		}
	}
	if !exact && (!(a.MaxGradNorm > 0) || math.IsInf(a.MaxGradNorm, 0)) {
		return argumentf("max_grad_norm, TrainerArguments.MaxGradNorm, is %g; want a positive number, or NoClipGrads",
			a.MaxGradNorm)
	}
	if _, err := parseLevel(a.LogLevel); err != nil {
		return err
	}
	if strings.ContainsAny(a.CheckpointerArgs.FilePrefix+a.CheckpointerArgs.FileExt, "/\\") {
		return argumentf("CheckpointerArgs.FilePrefix is %q and FileExt %q; want names without a folder, which is "+
			"SaveDir", a.CheckpointerArgs.FilePrefix, a.CheckpointerArgs.FileExt)
	}
	for _, name := range a.Writers {
		if name != azureML && !slices.Contains(writerNames, name) {
			return unknownWriter(name)
		}
	}
	return nil
}

// TrainStepBatchSize returns the number of samples in a forward pass: the batch of this process if
// it is within the limit, the limit if the batch is a multiple of it, and otherwise the batch
// halved until it fits. Halving rounds down: 13 samples with a limit of 5 become passes of 3.
func TrainStepBatchSize(batch, limit int) int {
	if batch <= limit {
		return batch
	}
	if batch%limit == 0 {
		return limit
	}
	for batch > limit {
		batch /= 2
	}
	return batch
}

// EstimatedGlobalSteps returns PyMarlin's estimate of the updates in an epoch with the given
// number of batches, which is one too many if the division is exact. maxSteps is
// TrainerArguments.MaxTrainStepsPerEpoch.
func EstimatedGlobalSteps(batches, worldSize, accumulation, maxSteps int) int {
	steps := batches/(worldSize*accumulation) + 1
	if maxSteps > 0 {
		steps = min(steps, maxSteps)
	}
	return steps
}

// DistributedTrainingArguments say which process this is, and how many there are. They must match
// [Options].Group.
type DistributedTrainingArguments struct {
	LocalRank  int `config:"local_rank"`
	GlobalRank int `config:"global_rank"`
	WorldSize  int `config:"world_size"` // zero: 1
}

// FetchRanks reads the ranks from the environment set by a launcher, as dist.Init does: torchrun,
// mpirun, which Azure ML uses, and others. Without a launcher there is one process.
func FetchRanks() (DistributedTrainingArguments, error) {
	l, err := dist.ReadLauncher(os.Getenv)
	if err != nil {
		err = argumentf("%w", err)
	}
	return DistributedTrainingArguments{LocalRank: l.LocalRank, GlobalRank: l.Rank, WorldSize: l.World}, err
}

// levels maps the level names of Python's logging.
var levels = map[string]slog.Level{"DEBUG": slog.LevelDebug, "NOTSET": slog.LevelDebug, "INFO": slog.LevelInfo,
	"WARNING": slog.LevelWarn, "WARN": slog.LevelWarn, "ERROR": slog.LevelError, "CRITICAL": slog.LevelError + 4,
	"FATAL": slog.LevelError + 4}

func parseLevel(name string) (slog.Level, error) {
	level, ok := levels[strings.ToUpper(name)]
	if !ok {
		return 0, argumentf("there is no log level %q; want DEBUG, INFO, WARNING, ERROR or CRITICAL", name)
	}
	return level, nil
}
