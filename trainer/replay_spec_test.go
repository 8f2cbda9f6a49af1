package trainer_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// The format of the recorded runs, and the options for a spec.

type hfSpec struct {
	Args      hfArgs
	Data      hfData
	Callbacks []struct {
		Kind      string
		At        string
		Step      int
		Set       []string
		To        *bool
		Patience  int
		Threshold float64
	}
	Phases []hfPhase
}

type hfData struct {
	Make     map[string]any
	Sets     []string `json:"eval_sets"`
	Iterable bool
}

func (d hfData) rows(split string) int {
	n, _ := d.Make[split].(float64)
	return int(n)
}

// valid returns the validation set, or the sets.
func (d hfData) valid() data.Dataset[int] {
	if d.Sets == nil {
		return trainertest.Samples(d.rows("eval"))
	}
	var sets trainer.EvalSets[int]
	for _, name := range d.Sets {
		sets = append(sets, trainer.EvalSet[int]{Name: name, Set: trainertest.Samples(d.rows("eval_" + name))})
	}
	return sets
}

type hfPhase struct {
	Do              string
	StopAfterUpdate int `json:"stop_after_update"`
	Resume          any
	SameTrainer     bool `json:"same_trainer"`
	Prefix          string
	Args            json.RawMessage
}

type hfArgs struct {
	NumTrainEpochs   float64  `json:"num_train_epochs"`
	MaxSteps         int      `json:"max_steps"`
	BatchSize        int      `json:"per_device_train_batch_size"`
	EvalBatchSize    int      `json:"per_device_eval_batch_size"`
	Accumulate       int      `json:"gradient_accumulation_steps"`
	LearningRate     float64  `json:"learning_rate"`
	SchedulerType    string   `json:"lr_scheduler_type"`
	WarmupSteps      float64  `json:"warmup_steps"`
	LoggingStrategy  string   `json:"logging_strategy"`
	LoggingSteps     float64  `json:"logging_steps"`
	LoggingFirstStep bool     `json:"logging_first_step"`
	EvalStrategy     string   `json:"eval_strategy"`
	EvalSteps        *float64 `json:"eval_steps"`
	EvalOnStart      bool     `json:"eval_on_start"`
	EvalDelay        float64  `json:"eval_delay"`
	SaveStrategy     string   `json:"save_strategy"`
	SaveSteps        float64  `json:"save_steps"`
	SaveTotalLimit   int      `json:"save_total_limit"`
	LoadBest         bool     `json:"load_best_model_at_end"`
	MetricForBest    string   `json:"metric_for_best_model"`
	GreaterIsBetter  *bool    `json:"greater_is_better"`
	DropLast         bool     `json:"dataloader_drop_last"`
	Seed             uint64
	DataSeed         uint64         `json:"data_seed"`
	NanFilter        bool           `json:"logging_nan_inf_filter"`
	Sampling         string         `json:"train_sampling_strategy"`
	SchedulerKwargs  map[string]any `json:"lr_scheduler_kwargs"`
	IgnoreDataSkip   bool           `json:"ignore_data_skip"`
	Tokens           string         `json:"include_num_input_tokens_seen"`
	EmptyCacheSteps  int            `json:"torch_empty_cache_steps"`
	RestoreCallbacks bool           `json:"restore_callback_states_from_checkpoint"`
}

type hfTrace struct {
	Phases      []struct{ Events int }
	Batches     [][]int
	MicroLosses []string `json:"micro_losses"`
	Updates     []struct {
		Epoch    float64
		GradNorm *string `json:"grad_norm"`
		LR       []string
	}
	LogHistory  []trainer.Logs `json:"log_history"`
	Events      [][]any
	Evaluations []struct {
		Prefix  string
		Seen    int
		Metrics map[string]any
	}
	Checkpoints struct {
		Written, After []string
		State          map[string]map[string]any
	}
	Best struct {
		Metric     any
		Step       *int
		Checkpoint *string
	}
	TrainOutput *struct {
		GlobalStep   int    `json:"global_step"`
		TrainingLoss string `json:"training_loss"`
	} `json:"train_output"`
	Error *struct{ Where string }
}

func readCase(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func float(t *testing.T, v any) float64 {
	t.Helper()
	switch v := v.(type) {
	case float64:
		return v
	case string:
		f, err := strconv.ParseFloat(v, 64)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	t.Fatalf("%v (%T) is not a number", v, v)
	return 0
}

func trigger(strategy string, steps float64) trainer.Trigger {
	switch {
	case strategy == "no":
		return trainer.Never
	case strategy == "epoch":
		return trainer.Every(1, trainer.Epoch)
	case strategy == "best":
		return trainer.AtBest
	case steps < 1:
		return trainer.EveryShare(steps)
	default:
		return trainer.Every(int(steps), trainer.Update)
	}
}

func options(t *testing.T, a hfArgs, trace *hfTrace, dir string) trainer.Options {
	o := trainer.Options{
		Epochs: a.NumTrainEpochs, MaxSteps: a.MaxSteps, BatchSize: a.BatchSize, EvalBatchSize: a.EvalBatchSize,
		Accumulate:   a.Accumulate,
		LearningRate: a.LearningRate, Seed: a.Seed, DataSeed: a.DataSeed, EvalOnStart: a.EvalOnStart,
		EvalDelay: a.EvalDelay, LogFirst: a.LoggingFirstStep,
		Log: trigger(a.LoggingStrategy, a.LoggingSteps), Save: trigger(a.SaveStrategy, a.SaveSteps),
		KeepCheckpoints: a.SaveTotalLimit,
		LoadBestAtEnd:   a.LoadBest, MetricForBest: a.MetricForBest, DropLast: a.DropLast,
		IgnoreDataSkip: a.IgnoreDataSkip,
		CountTokens:    a.Tokens != "", EmptyCacheSteps: a.EmptyCacheSteps, Semantics: semantics.HuggingFace,
		Progress: io.Discard, OutputDir: dir,
	}
	if a.MaxSteps > 0 {
		o.Epochs = 0
	}
	evalSteps := a.LoggingSteps
	if a.EvalSteps != nil {
		evalSteps = *a.EvalSteps
	}
	o.Eval = trigger(a.EvalStrategy, evalSteps)
	o.Semantics.FilterNonFiniteLoss = a.NanFilter
	o.Semantics.ForgetHooksAtResume = !a.RestoreCallbacks
	if a.GreaterIsBetter != nil {
		o.Direction = trainer.LowerIsBetter
		if *a.GreaterIsBetter {
			o.Direction = trainer.GreaterIsBetter
		}
	}
	var err error
	if a.SchedulerType == "reduce_lr_on_plateau" || a.SchedulerType == "greedy" {
		o.Adaptive, err = lr.AdaptiveByName(a.SchedulerType, a.SchedulerKwargs)
	} else {
		o.Schedule, err = lr.ByName(a.SchedulerType, a.SchedulerKwargs, a.WarmupSteps)
	}
	if err != nil {
		t.Fatal(err)
	}
	switch a.Sampling {
	case "sequential":
		o.Order = data.Sequential{}
	case "group_by_length": // this strategy has its own order, so the recorded one is used
		o.Order = data.OrderFunc(func(epoch, n int) []int {
			all := slices.Concat(trace.Batches...)
			return slices.Clone(all[epoch*n : (epoch+1)*n])
		})
	}
	return o
}

// tokensOf counts the input tokens of the training samples as the run did: all of them, or those in
// the attention mask.
func tokensOf(t *testing.T, dir, which string, d hfData) []int64 {
	t.Helper()
	tokens := make([]int64, d.rows("train"))
	for i := range tokens {
		tokens[i] = int64(d.rows("length"))
	}
	if which != "non_padding" {
		return tokens
	}
	file, err := safetensors.Open(filepath.Join(dir, "data.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	mask := make([]byte, len(tokens)*d.rows("length")*8)
	if err := file.ReadInto("train.attention_mask", mask); err != nil {
		t.Fatal(err)
	}
	for i := range tokens {
		row := mask[i*len(mask)/len(tokens) : (i+1)*len(mask)/len(tokens)]
		tokens[i] = int64(bytes.Count(row, []byte{1}))
	}
	return tokens
}
