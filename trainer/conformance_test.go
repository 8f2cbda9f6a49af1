package trainer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/callback"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// TestRecordedRunsOfHuggingFaceTrainer replays runs of transformers.Trainer 5.17 under semantics.HuggingFace. The recorded losses,
// norms and evaluations take the place of the arithmetic; everything else, from the order of the samples to the files left at the
// end, must come out as it was recorded, numbers to the last bit.
func TestRecordedRunsOfHuggingFaceTrainer(t *testing.T) {
	const folder = "../../shared/conformance/cases/hf"
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("the recorded runs are not here: %v", err)
	}
	notOurs := map[string]string{
		"err_fp16_and_bf16":       "precision is the step's",
		"resume_ignore_data_skip": "ignore_data_skip",
	}
	cases, err := filepath.Glob(folder + "/*/spec.json")
	if err != nil || len(cases) < 40 {
		t.Fatalf("found %d cases (%v), want at least 40", len(cases), err)
	}
	for _, path := range cases {
		dir := filepath.Dir(path)
		name := filepath.Base(dir)
		t.Run(name, func(t *testing.T) {
			if why, ok := notOurs[name]; ok {
				t.Skip("the loop has no " + why)
			}
			replay(t, dir)
		})
	}
}

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

// valid is the validation set, or the sets.
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
	DataSeed         uint64 `json:"data_seed"`
	NanFilter        bool   `json:"logging_nan_inf_filter"`
	Sampling         string `json:"train_sampling_strategy"`
	SchedulerKwargs  struct {
		NumCycles float64 `json:"num_cycles"`
	} `json:"lr_scheduler_kwargs"`
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

// replayStep gives back what was recorded. It embeds the recording step for everything else.
type replayStep struct {
	trainertest.Step
	t       *testing.T
	trace   *hfTrace
	cursor  *replayCursor
	sum     float32 // Trainer adds losses up in float32
	filter  int
	norm    float64
	seenNow int
}

// replayCursor is how far the recording has been used; phases share it.
type replayCursor struct{ micro, update, eval int }

func (s *replayStep) Train(_ context.Context, batch []int, _ trainer.Window) error {
	i := s.cursor.micro
	if i >= len(s.trace.Batches) {
		return fmt.Errorf("micro-batch %d, but only %d were recorded", i+1, len(s.trace.Batches))
	}
	if !slices.Equal(batch, s.trace.Batches[i]) {
		return fmt.Errorf("micro-batch %d is %v, recorded was %v", i+1, batch, s.trace.Batches[i])
	}
	s.cursor.micro++
	loss := float32(float(s.t, s.trace.MicroLosses[i]))
	if s.filter > 0 && (math.IsNaN(float64(loss)) || math.IsInf(float64(loss), 0)) {
		loss = s.sum / float32(s.filter)
	}
	s.sum += loss
	return nil
}

func (s *replayStep) FilterLoss(updates int) { s.filter = updates + 1 }

func (s *replayStep) Update(_ context.Context, rate float64) (bool, error) {
	u := s.trace.Updates[s.cursor.update]
	s.cursor.update++
	if want := float(s.t, u.LR[0]); rate != want {
		return false, fmt.Errorf("update %d has rate %x, recorded was %x", s.cursor.update, rate, want)
	}
	s.norm = -1
	if u.GradNorm != nil {
		s.norm = float(s.t, *u.GradNorm)
	}
	return true, nil
}

func (s *replayStep) Report(context.Context) (trainer.Report, error) {
	sum := s.sum
	s.sum = 0
	return trainer.Report{LossSum: float64(sum), GradNorm: s.norm}, nil
}

func (s *replayStep) Eval(_ context.Context, batch []int) error {
	s.seenNow += len(batch)
	return nil
}

func (s *replayStep) Metrics(context.Context) (trainer.Metrics, error) {
	e := s.trace.Evaluations[s.cursor.eval]
	s.cursor.eval++
	if s.seenNow != e.Seen {
		return nil, fmt.Errorf("evaluation %d saw %d rows, recorded were %d", s.cursor.eval, s.seenNow, e.Seen)
	}
	if name := s.Evaluations[len(s.Evaluations)-1].Name; name != e.Prefix {
		return nil, fmt.Errorf("evaluation %d is %q, recorded was %q", s.cursor.eval, name, e.Prefix)
	}
	s.seenNow = 0
	m := trainer.Metrics{}
	for name, v := range e.Metrics {
		if name = strings.TrimPrefix(name, e.Prefix+"_"); !strings.HasSuffix(name, "runtime") && !strings.HasSuffix(name, "per_second") {
			m[name] = float(s.t, v)
		}
	}
	return m, nil
}

var errKilled = errors.New("killed")

// events records what hooks are told, under Hugging Face's names, and dies where the recorded process was made to.
type events struct {
	list      [][]any
	saved     []string
	epochs    []float64
	killAfter int
}

func (e *events) add(name string, r *trainer.Run) error {
	e.list = append(e.list, []any{name, float64(r.GlobalStep), r.Epoch})
	return nil
}
func (e *events) InitEnd(r *trainer.Run) error    { return e.add("on_init_end", r) }
func (e *events) TrainBegin(r *trainer.Run) error { return e.add("on_train_begin", r) }
func (e *events) TrainEnd(r *trainer.Run) error   { return e.add("on_train_end", r) }
func (e *events) EpochBegin(r *trainer.Run) error { return e.add("on_epoch_begin", r) }
func (e *events) EpochEnd(r *trainer.Run) error   { return e.add("on_epoch_end", r) }
func (e *events) StepBegin(r *trainer.Run) error {
	_ = e.add("on_step_begin", r)
	if e.killAfter > 0 && r.GlobalStep == e.killAfter {
		return errKilled
	}
	return nil
}
func (e *events) SubstepEnd(r *trainer.Run) error   { return e.add("on_substep_end", r) }
func (e *events) BeforeUpdate(r *trainer.Run) error { return e.add("on_pre_optimizer_step", r) }
func (e *events) AfterUpdate(r *trainer.Run) error  { return e.add("on_optimizer_step", r) }
func (e *events) StepEnd(r *trainer.Run) error {
	e.epochs = append(e.epochs, r.Epoch)
	return e.add("on_step_end", r)
}
func (e *events) EvalStep(r *trainer.Run) error                        { return e.add("on_prediction_step", r) }
func (e *events) AfterEval(r *trainer.Run, _ trainer.Metrics) error    { return e.add("on_evaluate", r) }
func (e *events) AfterPredict(r *trainer.Run, _ trainer.Metrics) error { return e.add("on_predict", r) }
func (e *events) AfterLog(r *trainer.Run, _ trainer.Logs) error        { return e.add("on_log", r) }
func (e *events) AfterSave(r *trainer.Run, checkpoint string) error {
	e.saved = append(e.saved, filepath.Base(checkpoint))
	return e.add("on_save", r)
}

// controlHook is the recorded runs' own callback: it sets flags at one step.
type controlHook struct {
	step int
	set  []string
	to   bool
}

func (c controlHook) StepEnd(r *trainer.Run) error {
	if r.GlobalStep != c.step {
		return nil
	}
	for _, name := range c.set {
		*map[string]*bool{
			"should_log": &r.Control.ShouldLog, "should_evaluate": &r.Control.ShouldEvaluate, "should_save": &r.Control.ShouldSave,
			"should_epoch_stop": &r.Control.ShouldEpochStop, "should_training_stop": &r.Control.ShouldTrainingStop,
		}[name] = c.to
	}
	return nil
}

// recordedRates stands for a schedule that package lr does not have.
type recordedRates []float64

func (s recordedRates) Plan(float64, int) lr.Rate {
	return func(update int) float64 { return s[min(update, len(s)-1)] }
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
		Epochs: a.NumTrainEpochs, MaxSteps: a.MaxSteps, BatchSize: a.BatchSize, EvalBatchSize: a.EvalBatchSize, Accumulate: a.Accumulate,
		LearningRate: a.LearningRate, Seed: a.Seed, DataSeed: a.DataSeed, EvalOnStart: a.EvalOnStart, EvalDelay: a.EvalDelay, LogFirst: a.LoggingFirstStep,
		Log: trigger(a.LoggingStrategy, a.LoggingSteps), Save: trigger(a.SaveStrategy, a.SaveSteps), KeepCheckpoints: a.SaveTotalLimit,
		LoadBestAtEnd: a.LoadBest, MetricForBest: a.MetricForBest, DropLast: a.DropLast, Semantics: semantics.HuggingFace, Progress: io.Discard, OutputDir: dir,
	}
	if a.MaxSteps > 0 {
		o.Epochs = 0
	}
	if a.SchedulerType == "reduce_lr_on_plateau" && o.MetricForBest == "" {
		o.MetricForBest = "loss" // TrainingArguments sets it
	}
	evalSteps := a.LoggingSteps
	if a.EvalSteps != nil {
		evalSteps = *a.EvalSteps
	}
	o.Eval = trigger(a.EvalStrategy, evalSteps)
	o.Semantics.FilterNonFiniteLoss = a.NanFilter
	if a.GreaterIsBetter != nil {
		o.Direction = trainer.LowerIsBetter
		if *a.GreaterIsBetter {
			o.Direction = trainer.GreaterIsBetter
		}
	}
	switch a.SchedulerType {
	case "linear":
		o.Schedule = lr.Linear{Warmup: a.WarmupSteps}
	case "constant":
		o.Schedule = lr.Constant{}
	case "constant_with_warmup":
		o.Schedule = lr.ConstantWithWarmup{Warmup: a.WarmupSteps}
	case "cosine":
		o.Schedule = lr.Cosine{Warmup: a.WarmupSteps, Cycles: a.SchedulerKwargs.NumCycles}
	default:
		var rates recordedRates
		for _, u := range trace.Updates {
			rates = append(rates, float(t, u.LR[0]))
		}
		o.Schedule = rates
	}
	switch a.Sampling {
	case "sequential":
		o.Order = data.Sequential{}
	case "group_by_length": // an order of its own; the recorded one is given
		o.Order = data.OrderFunc(func(epoch, n int) []int {
			all := slices.Concat(trace.Batches...)
			return slices.Clone(all[epoch*n : (epoch+1)*n])
		})
	}
	return o
}

// replay runs the phases of a case and compares.
func replay(t *testing.T, dir string) {
	var spec hfSpec
	var trace hfTrace
	spec.Args = hfArgs{NumTrainEpochs: 3, BatchSize: 8, EvalBatchSize: 8, Accumulate: 1, LearningRate: 5e-5, SchedulerType: "linear", LoggingStrategy: "steps",
		LoggingSteps: 500, EvalStrategy: "no", SaveStrategy: "steps", SaveSteps: 500, Seed: 42, NanFilter: true}
	readCase(t, dir+"/spec.json", &spec)
	readCase(t, dir+"/trace.json", &trace)
	if len(spec.Phases) == 0 {
		spec.Phases = []hfPhase{{Do: "train"}}
	}
	var valid data.Dataset[int]
	if spec.Args.EvalStrategy != "no" {
		valid = spec.Data.valid()
	}
	out := ""
	if spec.Args.SaveStrategy != "no" {
		out = t.TempDir()
	}
	cursor := new(replayCursor)
	all := &events{}
	var tr *trainer.Trainer[int, []int]
	var result *trainer.Result
	var history []trainer.Logs
	var err error
	for _, phase := range spec.Phases {
		args := spec.Args
		if phase.Args != nil {
			if err := json.Unmarshal(phase.Args, &args); err != nil {
				t.Fatal(err)
			}
		}
		o := options(t, args, &trace, out)
		switch r := phase.Resume.(type) {
		case bool:
			o.ResumeFrom = trainer.Latest
		case string:
			o.ResumeFrom = filepath.Join(out, r)
		}
		all.killAfter = phase.StopAfterUpdate
		o.Callbacks = append(callbacks(spec), all)
		step := &replayStep{t: t, trace: &trace, cursor: cursor}
		if !phase.SameTrainer && (tr == nil || phase.Do == "train") {
			if tr, err = trainer.New[int, []int](step, o); err != nil {
				break
			}
		}
		switch phase.Do {
		case "evaluate":
			_, err = tr.Evaluate(t.Context(), spec.Data.valid())
		case "predict":
			_, err = tr.Predict(t.Context(), spec.Data.valid(), phase.Prefix)
		case "train":
			if spec.Data.Iterable {
				result, err = tr.FitStream(t.Context(), data.StreamOf(trainertest.Samples(spec.Data.rows("train")), nil), valid)
				break
			}
			result, err = tr.Fit(t.Context(), trainertest.Samples(spec.Data.rows("train")), valid)
		}
		history = tr.History()
		if phase.StopAfterUpdate > 0 && !errors.Is(err, errKilled) {
			t.Fatalf("phase ended with %v, want it killed after update %d", err, phase.StopAfterUpdate)
		}
	}
	if trace.Error != nil {
		if err == nil {
			t.Fatalf("no error, but Trainer refused this run at %q", trace.Error.Where)
		}
		if trace.Error.Where == "arguments" || trace.Error.Where == "trainer" {
			var wrong *trainer.OptionError
			if !errors.As(err, &wrong) {
				t.Errorf("refused with %v, want an OptionError", err)
			}
			return
		}
	} else if err != nil {
		t.Fatal(err)
	}
	if result != nil {
		result.History = history
	}
	compare(t, &trace, all, cursor, result, out)
}

func callbacks(spec hfSpec) (list []any) {
	for _, c := range spec.Callbacks {
		switch c.Kind {
		case "early_stopping":
			list = append(list, &callback.EarlyStopping{Patience: c.Patience, Threshold: c.Threshold})
		case "control":
			list = append(list, controlHook{c.Step, c.Set, c.To == nil || *c.To})
		}
	}
	return list
}

func compare(t *testing.T, trace *hfTrace, all *events, cursor *replayCursor, result *trainer.Result, out string) {
	if diff := cmp.Diff(trace.Events, all.list); diff != "" {
		t.Errorf("events (-recorded +ours):\n%s", diff)
	}
	if want := (replayCursor{len(trace.Batches), len(trace.Updates), len(trace.Evaluations)}); *cursor != want {
		t.Errorf("micro-batches, updates, evaluations: %+v, recorded were %+v", *cursor, want)
	}
	for i, u := range trace.Updates {
		if i < len(all.epochs) && all.epochs[i] != u.Epoch {
			t.Errorf("epoch after update %d is %v, recorded was %v", i+1, all.epochs[i], u.Epoch)
		}
	}
	if result == nil {
		return
	}
	notOurs := cmpopts.IgnoreMapEntries(func(k string, _ float64) bool {
		return k == "total_flos" || strings.HasPrefix(k, "num_input_tokens") || strings.HasSuffix(k, "_runtime") || strings.HasSuffix(k, "_per_second")
	})
	if diff := cmp.Diff(trace.LogHistory, result.History, notOurs, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("log (-recorded +ours):\n%s", diff)
	}
	if o := trace.TrainOutput; o != nil {
		if want := float(t, o.TrainingLoss); result.GlobalStep != o.GlobalStep || result.TrainLoss != want && !math.IsNaN(want) {
			t.Errorf("ended with update %d and train_loss %x, recorded were %d and %x", result.GlobalStep, result.TrainLoss, o.GlobalStep, want)
		}
	}
	if trace.Best.Metric != nil {
		if want := float(t, trace.Best.Metric); result.Best.Value != want {
			t.Errorf("best value is %v, recorded was %v", result.Best.Value, want)
		}
		if trace.Best.Step != nil && result.Best.GlobalStep != *trace.Best.Step {
			t.Errorf("best update is %d, recorded was %d", result.Best.GlobalStep, *trace.Best.Step)
		}
		want := ""
		if trace.Best.Checkpoint != nil {
			want = *trace.Best.Checkpoint
		}
		if got := filepath.Base(result.Best.Checkpoint); got != filepath.Base(want) {
			t.Errorf("best checkpoint is %q, recorded was %q", got, want)
		}
	} else if result.Best.Metric != "" {
		t.Errorf("best evaluation is %+v, recorded was none", result.Best)
	}
	compareFiles(t, trace, all, out)
}

func compareFiles(t *testing.T, trace *hfTrace, all *events, out string) {
	if out == "" {
		return
	}
	if diff := cmp.Diff(trace.Checkpoints.Written, all.saved, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("checkpoints written (-recorded +ours):\n%s", diff)
	}
	left, err := filepath.Glob(out + "/checkpoint-*")
	if err != nil {
		t.Fatal(err)
	}
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	if diff := cmp.Diff(trace.Checkpoints.After, left, cmpopts.SortSlices(strings.Compare), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("checkpoints left (-recorded +ours):\n%s", diff)
	}
	for name, want := range trace.Checkpoints.State {
		var got map[string]any
		readCase(t, filepath.Join(out, name, "trainer_state.json"), &got)
		if best, ok := got["best_model_checkpoint"].(string); ok {
			got["best_model_checkpoint"] = filepath.Base(best)
		}
		delete(got, "log_history")
		delete(got, "stateful_callbacks")
		if diff := cmp.Diff(want, got, cmpopts.IgnoreMapEntries(func(k string, _ any) bool { return k == "num_input_tokens_seen" })); diff != "" {
			t.Errorf("%s/trainer_state.json (-recorded +ours):\n%s", name, diff)
		}
	}
}
