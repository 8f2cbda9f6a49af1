package hezar

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// TrainerConfig is Hezar's TrainerConfig, field by field. The zero value of a field means Hezar's
// default, given in its comment; a field whose zero is a meaningful setting is a pointer.
type TrainerConfig struct {
	OutputDir string // folder for the run; required
	Task      string // one of [Tasks]; required. It determines the available metrics

	Device    string // "cuda", "cuda:1", "cpu"; empty: "cuda", or the CPU if there is no GPU
	NumEpochs int    // passes over the training set; zero: 1

	// InitWeightsFrom is a folder with model.pt or model.safetensors, or a repository on the Hub,
	// whose weights the model starts with. Weights with other shapes, such as those of a different
	// head, are skipped; [Trainer.InitReport] says which.
	InitWeightsFrom string
	// ResumeFromCheckpoint is [Newest] or the folder of a checkpoint. Empty: a new run.
	ResumeFromCheckpoint string

	// number of batches of the run, which it can only shorten; a share is a share of each epoch's
	// batches. Zero: all epochs
	MaxSteps Steps

	NumDataloaderWorkers int   // goroutines that load data; zero: one per processor. The batches do not depend on it
	DataloaderShuffle    *bool // nil: true
	Seed                 *int  // nil: 42

	Optimizer    string  // one of [Optimizers]; empty: "adam"
	LearningRate float64 // zero: 2e-5
	WeightDecay  float64 // for all parameters
	// LRScheduler is one of [LRSchedulers]. It also applies with Options.Optimizer, where Hezar
	// ignores it. Empty: a constant rate.
	LRScheduler       string
	LRSchedulerKwargs omegaconf.Map          // the arguments of the class of torch.optim.lr_scheduler
	LRLambda          func(step int) float64 // the factor of the schedule "lambda", which a file cannot hold
	// number of batches between two steps of the schedule; zero: those of an epoch
	LRSchedulingSteps int

	BatchSize                 int // zero: 1
	EvalBatchSize             int // zero: BatchSize
	GradientAccumulationSteps int // batches per update; zero: 1

	Distributed    bool   // train as one of several processes: New then requires Options.Group
	MixedPrecision string // "no", "bf16", "fp16", or "full", which is "no"; empty: "no"
	UseCPU         bool   // even if there is a GPU

	DoEvaluate *bool // evaluate after each epoch; nil: true
	// EvaluateWithGenerate evaluates a generative model ([Generator]) on the texts it generates;
	// nil: true. Text metrics need it.
	EvaluateWithGenerate *bool

	Metrics       []string       // names, or none; Task determines which are available
	MetricConfigs []MetricConfig // metrics with settings, added after those of Metrics
	// MetricForBestModel selects the best checkpoint: "evaluation.cer", "train.loss". Without
	// prefix it means the evaluation's, or the training's if DoEvaluate is false. Empty: "loss".
	MetricForBestModel string

	SaveEnabled *bool // write checkpoints; nil: true
	SaveFreq    int   // the former name of SaveSteps; setting it is refused
	// number of batches between two checkpoints, or a share of the run's; zero: those of an epoch.
	// The end of an epoch is always saved
	SaveSteps Steps
	LogSteps  Steps // batches between two logs of the running loss, or a share; zero: only the ends of epochs

	CheckpointsDir string // in OutputDir; empty: "checkpoints"
	LogsDir        string // in OutputDir; empty: "logs"

	// Zeros are the keys of a file whose value is 0, since a zero field means the default.
	// learning_rate trains with a rate of 0, which changes nothing; num_epochs, batch_size and
	// gradient_accumulation_steps are refused.
	Zeros []string
}

// Newest, as [TrainerConfig].ResumeFromCheckpoint, is resume_from_checkpoint=True: continue from
// the checkpoint in checkpoints/trainer_state.yaml, or start from the beginning if there is none.
const Newest = "true"

// Steps is a number of steps, or a share of them.
type Steps struct {
	n     int
	share float64
	zero  bool // 0 was written explicitly: it means the default, but is written again as 0
}

// Count returns Steps that are a number of batches.
func Count(n int) Steps { return Steps{n: n, zero: n == 0} }

// Share returns Steps that are a share, above 0 and at most 1. The resulting number is rounded up.
func Share(part float64) Steps { return Steps{share: part} }

func (s Steps) isZero() bool { return s.n == 0 && s.share == 0 }

// toCount converts a share of all steps to a number of steps.
func (s Steps) toCount(all int) Steps {
	if s.share == 0 {
		return s
	}
	return Count(int(math.Ceil(s.share * float64(all))))
}

func (s Steps) check(field string) error {
	if s.n < 0 || s.share < 0 || s.share > 1 || math.IsNaN(s.share) {
		return &SettingError{field, s.String(), "a number of steps, or a share above 0 and up to 1"}
	}
	return nil
}

// String returns the form used in a file.
func (s Steps) String() string {
	if s.share != 0 {
		return pyfloat.YAML(s.share)
	}
	return fmt.Sprint(s.n)
}

// The values that TrainerConfig accepts.
var (
	Tasks = []string{"audio_classification", "backbone", "image2text", "language_modeling", "mask_filling",
		"sequence_labeling", "speech_recognition", "text_classification", "text_detection", "text_generation"}
	Optimizers = []string{"adam", "adamw", "sdg", "sgd"} // Hezar calls stochastic gradient descent only sdg
	// LRSchedulers are Hezar's names for the classes of torch.optim.lr_scheduler.
	LRSchedulers = []string{"constant", "lambda", "step", "reduce_on_plateau", "multi_step", "one_cycle", "linear",
		"exponential", "cyclic", "polynomial", "cosine_anealing"}
)

// SettingError describes an invalid setting. New refuses it before anything is written.
type SettingError struct {
	Field string // field of TrainerConfig or Options
	Found string
	Want  string
}

func (e *SettingError) Error() string {
	return fmt.Sprintf("hezar: %s is %s; want %s", e.Field, e.Found, e.Want)
}

func refuse(field string, found any, want string) error {
	return &SettingError{field, fmt.Sprintf("%q", fmt.Sprint(found)), want}
}

func isTrue(b *bool) bool { return b == nil || *b }

// resolved returns the configuration with all defaults filled in, or an error if it is invalid.
func (c TrainerConfig) resolved(r Rules) (TrainerConfig, error) {
	c.Device, c.NumEpochs, c.Seed = cmp.Or(c.Device, "cuda"), cmp.Or(c.NumEpochs, 1), cmp.Or(c.Seed, new(42))
	c.BatchSize, c.GradientAccumulationSteps = cmp.Or(c.BatchSize, 1), cmp.Or(c.GradientAccumulationSteps, 1)
	if !slices.Contains(c.Zeros, "learning_rate") {
		c.LearningRate = cmp.Or(c.LearningRate, 2e-5)
	}
	c.MetricForBestModel = cmp.Or(c.MetricForBestModel, "loss")
	c.CheckpointsDir, c.LogsDir = cmp.Or(c.CheckpointsDir, "checkpoints"), cmp.Or(c.LogsDir, "logs")
	if !strings.HasPrefix(c.MetricForBestModel, "evaluation") && !strings.HasPrefix(c.MetricForBestModel, "train") {
		set := "train."
		if isTrue(c.DoEvaluate) {
			set = "evaluation."
		}
		c.MetricForBestModel = set + c.MetricForBestModel
	}
	optimizers, schedulers := Optimizers, LRSchedulers
	if r.OwnNamesOnly {
		optimizers, schedulers = Optimizers[:3], LRSchedulers[1:]
	}
	var errs []error
	check := func(ok bool, field string, found any, want string) {
		if !ok {
			errs = append(errs, refuse(field, found, want))
		}
	}
	check(c.OutputDir != "", "OutputDir", c.OutputDir, "a folder")
	check(slices.Contains(Tasks, c.Task), "Task", c.Task, "one of "+strings.Join(Tasks, ", "))
	check(c.Optimizer == "" || slices.Contains(optimizers, c.Optimizer), "Optimizer", c.Optimizer, "one of "+
		strings.Join(optimizers, ", ")+", or Options.Optimizer for any other")
	check(c.LRScheduler == "" || slices.Contains(schedulers, c.LRScheduler), "LRScheduler", c.LRScheduler, "one of "+
		strings.Join(schedulers, ", ")+", or Options.LRScheduler for any other, such as a sequence of schedules")
	check(c.LRScheduler != "lambda" || c.LRLambda != nil, "LRLambda", nil, `a function, since LRScheduler is "lambda"`)
	check(c.LRScheduler == "lambda" || c.LRLambda == nil, "LRScheduler", c.LRScheduler,
		`"lambda", since LRLambda is set`)
	check(slices.Contains([]string{"", "no", "full", "bf16", "fp16"}, c.MixedPrecision), "MixedPrecision",
		c.MixedPrecision, "no, full, bf16 or fp16")
	check(c.SaveFreq == 0 || r.SaveFreqIgnored, "SaveFreq", c.SaveFreq, "0: it has become SaveSteps")
	check(c.NumEpochs > 0, "NumEpochs", c.NumEpochs, "at least 1")
	check(c.BatchSize > 0 && c.EvalBatchSize >= 0, "BatchSize or EvalBatchSize", fmt.Sprint(c.BatchSize, ", ",
		c.EvalBatchSize), "at least 1")
	check(c.GradientAccumulationSteps > 0, "GradientAccumulationSteps", c.GradientAccumulationSteps, "at least 1")
	check(c.LRSchedulingSteps >= 0, "LRSchedulingSteps", c.LRSchedulingSteps,
		"at least 1, or 0 for the batches of an epoch")
	check(c.NumDataloaderWorkers >= 0, "NumDataloaderWorkers", c.NumDataloaderWorkers, "at least 0")
	for field, key := range map[string]string{"NumEpochs": "num_epochs", "BatchSize": "batch_size",
		"GradientAccumulationSteps": "gradient_accumulation_steps"} {
		check(!slices.Contains(c.Zeros, key), field, 0, "at least 1")
	}
	check(c.LearningRate >= 0 && !math.IsInf(c.LearningRate, 0), "LearningRate", c.LearningRate,
		"0 or a positive number")
	check(c.WeightDecay >= 0 && !math.IsInf(c.WeightDecay, 0), "WeightDecay", c.WeightDecay, "0 or a positive number")
	// The range of numpy's seeds, which Hezar sets too.
	check(*c.Seed >= 0 && *c.Seed < 1<<32, "Seed", *c.Seed, "a number from 0 to 4294967295")
	check(filepath.IsLocal(c.CheckpointsDir) && filepath.IsLocal(c.LogsDir), "CheckpointsDir or LogsDir",
		c.CheckpointsDir+", "+c.LogsDir, "names of folders in OutputDir")
	errs = append(errs, c.MaxSteps.check("MaxSteps"), c.SaveSteps.check("SaveSteps"), c.LogSteps.check("LogSteps"))
	return c, errors.Join(errs...)
}
