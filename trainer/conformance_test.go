package trainer_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/callback"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// TestRecordedRunsOfHuggingFaceTrainer replays runs of transformers.Trainer 5.17 under
// semantics.HuggingFace. The recorded losses, norms and evaluations replace the arithmetic.
// Everything else, from the order of the samples to the files left at the end, must be as recorded,
// numbers to the last bit.
func TestRecordedRunsOfHuggingFaceTrainer(t *testing.T) {
	const folder = "../../shared/conformance/cases/hf"
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("the recorded runs are not here: %v", err)
	}
	notOurs := map[string]string{
		"err_fp16_and_bf16": "precision is the step's",
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

// replay runs the phases of a case and compares the results with the recording.
func replay(t *testing.T, dir string) {
	var spec hfSpec
	var trace hfTrace
	spec.Args = hfArgs{NumTrainEpochs: 3, BatchSize: 8, EvalBatchSize: 8, Accumulate: 1, LearningRate: 5e-5,
		SchedulerType: "linear", LoggingStrategy: "steps",
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
		step.tokens = tokensOf(t, dir, args.Tokens, spec.Data)
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
				result, err = tr.FitStream(t.Context(), data.StreamOf(trainertest.Samples(spec.Data.rows("train")),
					nil), valid)
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
		return k == "total_flos" || strings.HasSuffix(k, "_runtime") || strings.HasSuffix(k, "_per_second")
	})
	if diff := cmp.Diff(trace.LogHistory, result.History, notOurs, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("log (-recorded +ours):\n%s", diff)
	}
	if o := trace.TrainOutput; o != nil {
		if want := float(t, o.TrainingLoss); result.GlobalStep != o.GlobalStep || result.TrainLoss != want &&
			!math.IsNaN(want) {
			t.Errorf("ended with update %d and train_loss %x, recorded were %d and %x", result.GlobalStep,
				result.TrainLoss, o.GlobalStep, want)
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
	if diff := cmp.Diff(trace.Checkpoints.After, left, cmpopts.SortSlices(strings.Compare),
		cmpopts.EquateEmpty()); diff != "" {
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
		if diff := cmp.Diff(want, got,
			cmpopts.IgnoreMapEntries(func(k string, _ any) bool { return k == "total_flos" })); diff != "" {
			t.Errorf("%s/trainer_state.json (-recorded +ours):\n%s", name, diff)
		}
	}
}
