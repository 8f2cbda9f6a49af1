package trainer_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// pmArgs are those arguments of PyMarlin that concern the loop.
type pmArgs struct {
	Epochs       int
	ValBatchSize int `json:"val_batch_size"`
	MaxTrain     int `json:"max_train_steps_per_epoch"`
	MaxVal       int `json:"max_val_steps_per_epoch"`
	Stats        struct {
		LogSteps int `json:"log_steps"`
	} `json:"stats_args"`
}

type pmTrace struct {
	peerTrace
	Phases []struct {
		MicroBatch int `json:"train_step_batch_size"`
		Accumulate int `json:"gradient_accumulation"`
		Estimate   int `json:"estimated_global_steps_per_epoch"`
		LastEpoch  int `json:"last_epoch_at_start"`
		Backend    struct {
			GlobalStep int `json:"global_step_completed"`
			Batches    int `json:"batches_completed"`
		} `json:"backend_at_start"`
		GlobalSteps int `json:"global_steps_finished"`
		Batches     int
	}
	Stats       [][]any
	Checkpoints struct{ Written [][]any }
}

// pmEvents are the hooks of ModuleInterface.
type pmEvents struct {
	list  [][]any
	saves [][]any
	rows  [][]any
	info  trainer.Info
}

func (e *pmEvents) add(name string, more ...any) error {
	e.list = append(e.list, append([]any{name}, more...))
	return nil
}
func (e *pmEvents) EpochBegin(r *trainer.Run) error {
	e.info = r.Info
	return e.add("on_begin_train_epoch", r.GlobalStep, r.EpochIndex)
}
func (e *pmEvents) BatchBegin(r *trainer.Run) error    { return e.add("train_step", r.GlobalStep+1) }
func (e *pmEvents) AfterBackward(r *trainer.Run) error { return e.add("on_end_backward", r.GlobalStep) }
func (e *pmEvents) StepEnd(r *trainer.Run) error       { return e.add("on_end_train_step", r.GlobalStep) }
func (e *pmEvents) EvalStepBegin(r *trainer.Run) error { return e.add("val_step", r.GlobalStep) }
func (e *pmEvents) EvalEnd(r *trainer.Run, _ trainer.Metrics) error {
	key := strings.TrimPrefix(strings.TrimPrefix(r.Evaluation, "eval"), "_")
	if key == "" {
		key = "default"
	}
	return e.add("on_end_val_epoch", r.GlobalStep, key)
}
func (e *pmEvents) EpochDone(r *trainer.Run) error { return e.add("on_end_train_epoch", r.GlobalStep) }
func (e *pmEvents) TrainEnd(r *trainer.Run) error  { return e.add("on_end_train", r.GlobalStep) }
func (e *pmEvents) AfterLog(r *trainer.Run, row trainer.Logs) error {
	if loss, ok := row["loss"]; ok {
		e.rows = append(e.rows, []any{loss, r.GlobalStep})
	}
	return nil
}
func (e *pmEvents) SaveCheckpoint(r *trainer.Run, _ []byte) (string, error) {
	e.saves = append(e.saves, []any{"save", r.EpochIndex})
	return "", nil
}

func TestRecordedRunsOfPyMarlin(t *testing.T) {
	peerCases(t, "pymarlin", nil, replayPyMarlin)
}

func replayPyMarlin(t *testing.T, dir string) {
	var spec peerSpec
	var trace pmTrace
	readCase(t, dir+"/spec.json", &spec)
	readCase(t, dir+"/trace.json", &trace)
	sets := struct {
		Keys []string `json:"eval_keys"`
		Make map[string]any
	}{}
	if err := json.Unmarshal(spec.Data, &sets); err != nil {
		t.Fatal(err)
	}
	if len(spec.Phases) == 0 {
		spec.Phases = []json.RawMessage{json.RawMessage(`{}`)}
	}
	micro, updates, evals := 0, 0, 0
	all := &pmEvents{}
	for i, phase := range spec.Phases {
		args := pmArgs{Epochs: 1, ValBatchSize: 1}
		args.Stats.LogSteps = 1
		var own struct{ Args json.RawMessage }
		if err := json.Unmarshal(phase, &own); err != nil {
			t.Fatal(err)
		}
		for _, text := range []json.RawMessage{spec.Args, own.Args} {
			if text == nil {
				continue
			}
			if err := json.Unmarshal(text, &args); err != nil {
				t.Fatal(err)
			}
		}
		p := trace.Phases[i]
		n := rowsOf(t, dir, "train")
		perEpoch := (n + p.MicroBatch - 1) / p.MicroBatch
		if args.MaxTrain > 0 {
			perEpoch = p.Batches / args.Epochs
		}
		o := trainer.Options{
			Epochs: float64(args.Epochs), BatchSize: p.MicroBatch, EvalBatchSize: args.ValBatchSize,
			Accumulate: p.Accumulate, MaxStepsPerEpoch: args.MaxTrain,
			LimitEvalBatches: args.MaxVal, Semantics: semantics.PyMarlin, Order: recordedOrder(trace.Batches, perEpoch),
			Log:  trainer.Every(args.Stats.LogSteps, trainer.Update),
			Save: trainer.Every(1, trainer.Epoch), Saver: all, Progress: io.Discard, Callbacks: []any{all},
		}
		var schedule rates
		for _, u := range trace.Updates {
			schedule = append(schedule, firstRate(t, u.LR))
		}
		o.Schedule = schedule
		if p.LastEpoch >= 0 {
			o.Start = &trainer.StartPosition{Epoch: p.LastEpoch + 1, GlobalStep: p.Backend.GlobalStep,
				ScheduleSteps: p.Backend.GlobalStep, WindowPhase: p.Backend.Batches % p.Accumulate}
		}
		step := &peerStep{t: t, trace: &trace.peerTrace, micro: &micro, updates: &updates, evals: &evals}
		tr, err := trainer.New[int, []int](step, o)
		if err != nil {
			t.Fatal(err)
		}
		valid := trainer.EvalSets[int]{}
		for _, key := range sets.Keys {
			valid = append(valid, trainer.EvalSet[int]{Name: key, Set: trainertest.Samples(rowsOf(t, dir, key))})
		}
		var result *trainer.Result
		if sets.Keys == nil {
			result, err = tr.Fit(t.Context(), trainertest.Samples(n), trainertest.Samples(rowsOf(t, dir, "eval")))
		} else {
			result, err = tr.Fit(t.Context(), trainertest.Samples(n), valid)
		}
		if err != nil {
			t.Fatal(err)
		}
		if result.GlobalStep != p.GlobalSteps {
			t.Errorf("phase %d ended with update %d, recorded was %d", i, result.GlobalStep, p.GlobalSteps)
		}
		if all.info.UpdatesPerEpoch != p.Estimate {
			t.Errorf("estimated updates per epoch are %d, recorded were %d", all.info.UpdatesPerEpoch, p.Estimate)
		}
		epochs := args.Epochs - p.LastEpoch - 1
		if got := strings.Count(strings.Join(step.Calls, " "), "loader(train)"); got != 2*epochs {
			t.Errorf("%d numbers were drawn for training loaders, want two for each of %d epochs", got, epochs)
		}
	}
	sameEvents(t, only(trace.Events, 3, "on_begin_train_epoch", "train_step", "on_end_backward", "on_end_val_epoch",
		"on_end_train", "val_step"),
		only(all.list, 3, "on_begin_train_epoch", "train_step", "on_end_backward", "on_end_val_epoch", "on_end_train",
			"val_step"))
	sameEvents(t, only(trace.Events, 2, "on_end_train_step", "on_end_train_epoch", "train_step", "on_end_val_epoch"),
		only(all.list, 2, "on_end_train_step", "on_end_train_epoch", "train_step", "on_end_val_epoch"))
	var losses, saves [][]any
	for _, s := range trace.Stats {
		if s[1] == "loss" {
			losses = append(losses, []any{float(t, s[2]), s[3]})
		}
	}
	for _, s := range trace.Checkpoints.Written {
		if s[0] == "save" && s[2] == false {
			saves = append(saves, s[:2])
		}
	}
	sameEvents(t, losses, all.rows)
	sameEvents(t, saves, all.saves)
	if diff := cmp.Diff([]int{len(trace.Batches), len(trace.Updates), len(trace.Evaluations)},
		[]int{micro, updates, evals}); diff != "" {
		t.Errorf("micro-batches, updates, evaluations (-recorded +ours):\n%s", diff)
	}
}
