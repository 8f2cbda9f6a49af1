package trainer_test

import (
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// hzArgs are those arguments of Hezar that concern the loop.
type hzArgs struct {
	BatchSize     int  `json:"batch_size"`
	EvalBatchSize int  `json:"eval_batch_size"`
	NumEpochs     int  `json:"num_epochs"`
	Accumulate    int  `json:"gradient_accumulation_steps"`
	Shuffle       bool `json:"dataloader_shuffle"`
	DoEvaluate    bool `json:"do_evaluate"`
	SaveEnabled   bool `json:"save_enabled"`
}

type hzState struct {
	Epoch      int    `json:"epoch"`
	GlobalStep int    `json:"global_step"`
	EpochStep  int    `json:"epoch_step"`
	Sum        string `json:"loss_tracker_sum"`
	Mean       string `json:"loss_tracker_avg"`
}

type hzTrace struct {
	peerTrace
	Phases []struct {
		TotalSteps      int             `json:"total_steps"`
		SaveSteps       int             `json:"save_steps"`
		LogSteps        int             `json:"log_steps"`
		SchedulingSteps int             `json:"lr_scheduling_steps"`
		State           json.RawMessage `json:"state_at_start"`
		TrackerAtStart  struct {
			Count int
		} `json:"loss_tracker_at_start"`
		Stopped bool
	}
	Tracker []struct {
		Step int
		Avg  string
	} `json:"loss_tracker"`
	Scheduled []struct {
		AfterStep int `json:"after_step"`
		LR        []string
	} `json:"scheduler_steps"`
	Tensorboard [][]any
	Checkpoints struct{ Written []string }
}

// hzEvents are Hezar's methods, which replace callbacks.
type hzEvents struct {
	list      [][]any
	means     []float64 // as in the progress bar, after each micro-step
	scheduled [][]any
	rows      [][]any
	saves     []string
	updated   []any // the micro-steps after which an update was made
	stopAfter int
	total     int
}

func (e *hzEvents) add(name string, r *trainer.Run, inEpoch int) error {
	e.list = append(e.list, []any{name, r.GlobalStep, r.EpochIndex + 1, inEpoch})
	return nil
}
func (e *hzEvents) EpochBegin(r *trainer.Run) error {
	e.total = r.MaxSteps
	return e.add("inner_training_loop", r, r.Batches)
}
func (e *hzEvents) BatchBegin(r *trainer.Run) error {
	if e.stopAfter > 0 && r.GlobalStep == e.stopAfter {
		return errKilled
	}
	return e.add("prepare_input_batch", r, r.Batches)
}
func (e *hzEvents) AfterBackward(r *trainer.Run) error {
	return e.add("optimization_step", r, r.Batches)
}
func (e *hzEvents) AfterUpdate(r *trainer.Run) error {
	e.updated = append(e.updated, r.GlobalStep+1)
	return nil
}
func (e *hzEvents) StepEnd(r *trainer.Run) error {
	e.means = append(e.means, r.Loss())
	return nil
}
func (e *hzEvents) AfterSchedule(r *trainer.Run, rate float64) error {
	e.scheduled = append(e.scheduled, []any{r.GlobalStep, rate})
	return nil
}
func (e *hzEvents) EvalBegin(r *trainer.Run) error { return e.add("evaluate", r, r.Batches) }
func (e *hzEvents) EvalStepBegin(r *trainer.Run) error {
	return e.add("prepare_input_batch", r, r.Batches)
}
func (e *hzEvents) EpochDone(r *trainer.Run) error { return e.add("log", r, 0) }
func (e *hzEvents) AfterLog(r *trainer.Run, row trainer.Logs) error {
	if loss, ok := row["loss"]; ok {
		e.rows = append(e.rows, []any{loss, r.GlobalStep})
	}
	return nil
}
func (e *hzEvents) SaveCheckpoint(r *trainer.Run, _ []byte) (string, error) {
	name := strconv.Itoa(r.GlobalStep)
	name = strings.Repeat("0", len(strconv.Itoa(r.MaxSteps))-len(name)) + name
	e.saves = append(e.saves, name)
	return name, e.add("save", r, r.Batches)
}

func TestRecordedRunsOfHezar(t *testing.T) {
	peerCases(t, "hezar", map[string]string{"wrong_settings": "the settings are those of compat/hezar"}, replayHezar)
}

func replayHezar(t *testing.T, dir string) {
	var spec peerSpec
	var trace hzTrace
	readCase(t, dir+"/spec.json", &spec)
	readCase(t, dir+"/trace.json", &trace)
	if len(spec.Phases) == 0 {
		spec.Phases = []json.RawMessage{json.RawMessage(`{}`)}
	}
	micro, updates, evals := 0, 0, 0
	all := &hzEvents{}
	for i, phase := range spec.Phases {
		args := hzArgs{BatchSize: 1, NumEpochs: 1, Accumulate: 1, Shuffle: true, DoEvaluate: true, SaveEnabled: true}
		var own struct {
			Args   json.RawMessage
			Resume any
			Stop   int `json:"stop_after_step"`
		}
		for _, step := range []struct {
			text json.RawMessage
			into any
		}{{phase, &own}, {spec.Args, &args}, {own.Args, &args}} {
			if step.text == nil {
				step.text = own.Args
			}
			if step.text == nil {
				continue
			}
			if err := json.Unmarshal(step.text, step.into); err != nil {
				t.Fatal(err)
			}
		}
		p := trace.Phases[i]
		o := trainer.Options{
			Epochs: float64(args.NumEpochs), MaxSteps: p.TotalSteps, BatchSize: args.BatchSize,
			EvalBatchSize: args.EvalBatchSize, Accumulate: args.Accumulate,
			Semantics: semantics.Hezar, Order: data.Sequential{}, Log: trainer.Every(1, trainer.Epoch),
			Eval: trainer.Never,
			Save: trainer.Every(p.SaveSteps, trainer.Update), Saver: all, ScheduleSteps: p.SchedulingSteps,
			Progress: io.Discard, Callbacks: []any{all},
		}
		if o.EvalBatchSize == 0 {
			o.EvalBatchSize = args.BatchSize
		}
		if args.Shuffle {
			o.Order = data.PythonShuffled{Seed: 42}
			o.EvalOrder = data.PythonShuffled{Seed: 42}
		}
		if args.SaveEnabled {
			o.Save = o.Save.AndEpochs(1)
		}
		if p.LogSteps > 0 {
			o.Log = trainer.Every(p.LogSteps, trainer.Update).AndEpochs(1)
		}
		if args.DoEvaluate {
			o.Eval = trainer.Every(1, trainer.Epoch)
		}
		o.Schedule = hzRates(t, trace)
		if own.Resume != nil {
			var s hzState
			if err := json.Unmarshal(p.State, &s); err != nil {
				t.Fatal(err)
			}
			o.Start = &trainer.StartPosition{
				Epoch: s.Epoch - 1, Batches: s.EpochStep, GlobalStep: s.GlobalStep,
				ScheduleSteps: s.GlobalStep / p.SchedulingSteps,
				LossSum:       float(t, s.Sum), LossMean: float(t, s.Mean), LossCount: p.TrackerAtStart.Count,
			}
		}
		all.stopAfter = own.Stop
		step := &peerStep{t: t, trace: &trace.peerTrace, micro: &micro, updates: &updates, evals: &evals}
		tr, err := trainer.New[int, []int](step, o)
		if err != nil {
			t.Fatal(err)
		}
		var valid data.Dataset[int]
		if args.DoEvaluate {
			valid = trainertest.Samples(rowsOf(t, dir, "eval"))
		}
		_, err = tr.Fit(t.Context(), trainertest.Samples(rowsOf(t, dir, "train")), valid)
		if p.Stopped != errors.Is(err, errKilled) || err != nil && !p.Stopped {
			t.Fatalf("phase %d ended with %v, recorded was stopped: %v", i, err, p.Stopped)
		}
		if all.total != p.TotalSteps {
			t.Errorf("planned steps are %d, recorded were %d", all.total, p.TotalSteps)
		}
	}
	compareHezar(t, trace, all)
	if diff := cmp.Diff([]int{len(trace.Batches), len(trace.Updates), len(trace.Evaluations)},
		[]int{micro, updates, evals}); diff != "" {
		t.Errorf("micro-batches, updates, evaluations (-recorded +ours):\n%s", diff)
	}
}

// hzRates returns the recorded rate after each step of the scheduler.
func hzRates(t *testing.T, trace hzTrace) rates {
	series := rates{firstRate(t, trace.Updates[0].LR)}
	at := map[int]bool{}
	for _, s := range trace.Scheduled {
		if at[s.AfterStep] { // again, after a resume
			continue
		}
		at[s.AfterStep] = true
		series = append(series, float(t, s.LR[0]))
	}
	return series
}

func compareHezar(t *testing.T, trace hzTrace, all *hzEvents) {
	t.Helper()
	sameEvents(t, only(trace.Events, 4, "inner_training_loop", "prepare_input_batch", "optimization_step", "save",
		"evaluate", "log"), all.list)
	var updated, rows, scheduled [][]any
	for i, u := range trace.Updates {
		updated = append(updated, []any{float64(u.AfterStep)})
		if i < len(all.updated) {
			all.updated[i] = []any{all.updated[i]}
		}
	}
	ours := make([][]any, len(all.updated))
	for i, u := range all.updated {
		ours[i] = u.([]any)
	}
	sameEvents(t, updated, ours)
	for _, row := range trace.Tensorboard {
		if row[0] == "train.loss" {
			rows = append(rows, []any{float(t, row[1]), row[2]})
		}
	}
	sameEvents(t, rows, all.rows)
	for _, s := range trace.Scheduled {
		scheduled = append(scheduled, []any{float64(s.AfterStep), float(t, s.LR[0])})
	}
	if scheduled != nil { // without a scheduler the rate does not change
		sameEvents(t, scheduled, all.scheduled)
	}
	written := slices.Clone(trace.Checkpoints.Written)
	for i := range written {
		written[i] = filepath.Base(written[i])
	}
	if diff := cmp.Diff(written, all.saves); diff != "" {
		t.Errorf("saves (-recorded +ours):\n%s", diff)
	}
	// The displayed mean changes only when a window of the tracker closes.
	var means []float64
	for i, m := range all.means {
		if i == 0 && m != 0 || i > 0 && m != all.means[i-1] {
			means = append(means, m)
		}
	}
	var want []float64
	for _, m := range trace.Tracker {
		want = append(want, float(t, m.Avg))
	}
	if diff := cmp.Diff(want, means); diff != "" {
		t.Errorf("running mean (-recorded +ours):\n%s", diff)
	}
}
