package trainer

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// Latest, as [Options].ResumeFrom, means the newest whole checkpoint in OutputDir, or a start from the beginning if there is none.
// A program that always sets it can be killed and started again at will.
const Latest = "latest"

// Direction says which of two values of a metric is better.
type Direction int

const (
	// ByName decides by the metric's name: a metric that ends in "loss", and cer and wer, are better when lower; everything else when greater.
	ByName Direction = iota
	GreaterIsBetter
	LowerIsBetter
)

// Options configures [New]. The zero value of a field means the default that its comment names; the defaults are those of
// Hugging Face's TrainingArguments unless the comment says otherwise.
type Options struct {
	// OutputDir is where checkpoints, metrics.jsonl and metrics.csv go. Empty: nothing is written.
	OutputDir string

	Epochs   float64 // passes over the training set; 1.5 is one and a half; zero: 3
	MaxSteps int     // updates; if positive it decides alone and Epochs must be zero

	BatchSize     int // samples of a micro-batch; zero: 8
	EvalBatchSize int // samples of an evaluation batch; zero: 8
	Accumulate    int // micro-batches behind one update; zero: 1. A short last window of an epoch is an update too.

	// LearningRate is the peak rate. Zero: what the step's optimizer was made with, see [LearningRater], else 5e-5.
	LearningRate float64
	// Schedule is how the rate changes from update to update. Nil: lr.Linear{}.
	Schedule lr.Schedule
	// Adaptive, instead of Schedule, is a schedule that follows the metric of MetricForBest, such as lr.ReduceLROnPlateau{}: after each evaluation
	// it is told the metric and says how the rate goes on.
	Adaptive lr.Adaptive

	Seed     uint64 // of the step's random numbers and of the order of samples; zero: 42
	DataSeed uint64 // of the order of samples alone; zero: Seed

	Eval        Trigger // when to evaluate; default: after every epoch if Fit is given a validation set (Hugging Face: never)
	Save        Trigger // when to write a checkpoint; default: every 500 updates and at the end
	Log         Trigger // when to log the loss; default: every 500 updates
	EvalOnStart bool    // evaluate before the first update too
	EvalDelay   float64 // no evaluation before so many updates, or epochs where Eval counts epochs
	LogFirst    bool    // log the first update too

	KeepCheckpoints int    // how many checkpoints stay; the best and the newest always do; zero: all
	LoadBestAtEnd   bool   // end with the weights of the best evaluation
	MetricForBest   string // what the best evaluation is judged by: "accuracy", or "eval_accuracy"; empty: "loss"
	Direction       Direction

	// ResumeFrom is the folder of a checkpoint, or [Latest]. Empty: start from the beginning.
	ResumeFrom string
	// IgnoreDataSkip begins the interrupted epoch of a resumed run again at its first batch instead of behind those that it was trained
	// on; the count of updates goes on, so the epoch in the log jumps back. A resumed run is then not the one that was interrupted.
	IgnoreDataSkip bool
	// Overwrite deletes the checkpoints and the log of an earlier run in OutputDir. Otherwise Fit refuses such a folder unless it resumes.
	Overwrite bool

	// Order is the order of the samples. Nil: data.Shuffled{Seed: DataSeed}, a new permutation each epoch.
	Order data.Order

	// CountTokens counts the input tokens of the training batches: num_input_tokens_seen in the log, and the speed in tokens. The step decides which
	// tokens count, all or those that are not padding; it must be a [TokenCounter].
	CountTokens bool
	// EmptyCacheSteps lets the step give unused memory back to the device before the batches of every so many updates, which costs time
	// and helps where memory is short; zero: never. The step must be a [CacheEmptier].
	EmptyCacheSteps int

	DropLast  bool                             // leave out the last batch of an epoch if it is smaller than BatchSize
	Workers   int                              // goroutines that load and collate; zero: one for each processor
	BadSample func(index int, err error) error // asked about a sample that cannot be loaded; see data.LoaderOptions. Nil: the run fails

	// Semantics decides the fine points of the loop. The zero value is semantics.Default.
	Semantics semantics.Rules

	// Callbacks are the hooks: values that implement one or more of the interfaces in hooks.go. They are called in this order.
	Callbacks []any

	// Progress is where the progress of the run is shown: one line that is redrawn if it is a terminal, plain lines otherwise.
	// Nil: standard error. io.Discard: nowhere.
	Progress io.Writer
}

// resolved returns the options with every default filled in, or what is wrong with them.
func (o Options) resolved(step any) (Options, error) {
	if o.Epochs < 0 || math.IsNaN(o.Epochs) || math.IsInf(o.Epochs, 0) {
		return o, &OptionError{"Epochs", fmt.Sprint(o.Epochs), "a positive number, or 0 for 3"}
	}
	if !(o.EvalDelay >= 0) || math.IsInf(o.EvalDelay, 1) {
		return o, &OptionError{"EvalDelay", fmt.Sprint(o.EvalDelay), "0 or a positive number"}
	}
	if o.MaxSteps > 0 && o.Epochs > 0 {
		return o, &OptionError{"Epochs", fmt.Sprint(o.Epochs), fmt.Sprintf("0, since MaxSteps is %d and decides the length of the run alone", o.MaxSteps)}
	}
	if o.Epochs == 0 {
		o.Epochs = 3
	}
	for _, f := range []struct {
		name     string
		value    *int
		fallback int
	}{
		{"MaxSteps", &o.MaxSteps, 0}, {"BatchSize", &o.BatchSize, 8}, {"EvalBatchSize", &o.EvalBatchSize, 8}, {"Accumulate", &o.Accumulate, 1},
		{"KeepCheckpoints", &o.KeepCheckpoints, 0}, {"Workers", &o.Workers, 0}, {"EmptyCacheSteps", &o.EmptyCacheSteps, 0},
	} {
		if *f.value < 0 {
			return o, &OptionError{f.name, strconv.Itoa(*f.value), "a positive number, or 0 for the default"}
		}
		if *f.value == 0 {
			*f.value = f.fallback
		}
	}
	if err := o.resolveRate(step); err != nil {
		return o, err
	}
	if o.Seed == 0 {
		o.Seed = 42
	}
	if o.DataSeed == 0 {
		o.DataSeed = o.Seed
	}
	if o.Direction < ByName || o.Direction > LowerIsBetter {
		return o, &OptionError{"Direction", strconv.Itoa(int(o.Direction)), "ByName, GreaterIsBetter or LowerIsBetter"}
	}
	if o.Semantics.Name == "" {
		o.Semantics.Name = semantics.Default.Name
	}
	if d := o.Semantics.Divisor; d != semantics.WindowLength && d != semantics.Accumulate {
		return o, &OptionError{"Semantics.Divisor", strconv.Itoa(int(d)), "semantics.WindowLength or semantics.Accumulate"}
	}
	if o.Progress == nil {
		o.Progress = os.Stderr
	}
	return o, o.resolveFiles()
}

func (o *Options) resolveRate(step any) error {
	if o.LearningRate == 0 {
		o.LearningRate = 5e-5
		if s, ok := step.(LearningRater); ok {
			if own := s.LearningRate(); own != 0 {
				o.LearningRate = own
			}
		}
	}
	if !(o.LearningRate > 0) || math.IsInf(o.LearningRate, 0) {
		return &OptionError{"LearningRate", fmt.Sprint(o.LearningRate), "a positive number"}
	}
	if o.Adaptive != nil {
		if o.Schedule != nil {
			return &OptionError{"Adaptive", fmt.Sprintf("%T", o.Adaptive), "nil, since Schedule is set: one of them decides the rate"}
		}
		if _, err := o.Adaptive.Start(o.LearningRate); err != nil {
			return fmt.Errorf("trainer: Options.Adaptive: %w", err)
		}
		return nil
	}
	if o.Schedule == nil {
		o.Schedule = lr.Linear{}
	}
	if v, ok := o.Schedule.(lr.Validator); ok {
		if err := v.Validate(); err != nil {
			return fmt.Errorf("trainer: Options.Schedule: %w", err)
		}
	}
	return nil
}

// resolveFiles settles when to evaluate, save and log, and whether there is a folder for what that writes.
func (o *Options) resolveFiles() error {
	for _, f := range []struct {
		name    string
		trigger Trigger
	}{{"Eval", o.Eval}, {"Save", o.Save}, {"Log", o.Log}} {
		if err := f.trigger.validate(f.name); err != nil {
			return err
		}
	}
	o.Log = o.Log.orElse(Every(500, Update))
	if o.OutputDir == "" {
		for _, f := range []struct {
			name string
			set  bool
		}{
			{"Save", o.Save.kind != unset && o.Save.kind != never}, {"LoadBestAtEnd", o.LoadBestAtEnd}, {"ResumeFrom", o.ResumeFrom == Latest},
			{"Overwrite", o.Overwrite}, {"KeepCheckpoints", o.KeepCheckpoints > 0},
		} {
			if f.set {
				return &OptionError{"OutputDir", `""`, "a folder, since " + f.name + " is set and needs one"}
			}
		}
		o.Save = Never
	}
	o.Save = o.Save.orElse(Every(500, Update))
	switch {
	case o.Overwrite && o.ResumeFrom != "":
		return &OptionError{"Overwrite", "true", "false, since ResumeFrom is set: a run is either resumed or begun anew"}
	case o.LoadBestAtEnd && o.Save.kind == never:
		return &OptionError{"LoadBestAtEnd", "true", "false, since Save is Never and there would be nothing to load"}
	case o.LoadBestAtEnd && o.Eval.kind == never:
		return &OptionError{"LoadBestAtEnd", "true", "false, since Eval is Never and none would be the best"}
	case o.Adaptive != nil && o.Eval.kind == never:
		return &OptionError{"Adaptive", fmt.Sprintf("%T", o.Adaptive), "nil, since Eval is Never and there would be nothing for it to follow"}
	case o.Save.kind == atBest && o.Eval.kind == never:
		return &OptionError{"Save", "AtBest", "another trigger, since Eval is Never and none would be the best"}
	}
	return nil
}

// checkBest refuses, where the semantics say so, to load at the end a best model that was perhaps never saved.
func (o *Options) checkBest(eval, save Trigger) error {
	if !o.LoadBestAtEnd || !o.Semantics.BestMayBeUnsaved || save.kind == atBest {
		return nil
	}
	if eval.kind != save.kind || eval.unit != save.unit || save.n%eval.n != 0 {
		return &OptionError{"LoadBestAtEnd", "true", fmt.Sprintf("Save to be in the unit of Eval and a multiple of it (Eval is %v, Save is %v); or Save: AtBest", eval, save)}
	}
	return nil
}

// checkStep refuses options that the step has no means to carry out.
func (o *Options) checkStep(step any) error {
	if _, ok := step.(Stateful); !ok && (o.Save.kind != never || o.ResumeFrom != "") {
		if o.OutputDir != "" && o.ResumeFrom == "" {
			return fmt.Errorf("trainer: %T cannot be saved, since it does not implement trainer.Stateful: implement it, or set Options.Save to Never", step)
		}
		return fmt.Errorf("trainer: %T cannot be resumed, since it does not implement trainer.Stateful", step)
	}
	if _, ok := step.(WeightLoader); !ok && o.LoadBestAtEnd {
		return fmt.Errorf("trainer: Options.LoadBestAtEnd is set, but %T does not implement trainer.WeightLoader", step)
	}
	if _, ok := step.(CacheEmptier); !ok && o.EmptyCacheSteps > 0 {
		return fmt.Errorf("trainer: Options.EmptyCacheSteps is %d, but %T does not implement trainer.CacheEmptier", o.EmptyCacheSteps, step)
	}
	if _, ok := step.(LossFilter); !ok && o.Semantics.FilterNonFiniteLoss {
		return fmt.Errorf("trainer: Options.Semantics (%s) keeps nan and inf out of the logged loss, but %T does not implement trainer.LossFilter: implement it, or clear FilterNonFiniteLoss",
			o.Semantics.Name, step)
	}
	return nil
}

var errNoData = errors.New("trainer: Fit needs a training set with at least one sample")
