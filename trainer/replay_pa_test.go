package trainer_test

import (
	"encoding/json"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// paArgs are the arguments of train() of pytorch-accelerated.
type paArgs struct {
	NumEpochs  int     `json:"num_epochs"`
	BatchSize  int     `json:"per_device_batch_size"`
	MaxSteps   int     `json:"max_num_train_steps"`
	Accumulate int     `json:"gradient_accumulation_steps"`
	ClipValue  float64 `json:"gradient_clip_value"`
	Evaluate   bool    `json:"evaluate"`
	ResumeFrom string  `json:"resume_from"`
	Scheduler  any
}

type paTrace struct {
	peerTrace
	Phases []struct {
		Do        string
		Events    int
		RunConfig struct {
			NumEpochs int `json:"num_epochs"`
			Updates   int `json:"num_update_steps_per_epoch"`
			Max       int `json:"max_num_train_steps"`
		} `json:"run_config"`
	}
	Clips     []any
	Scheduled []struct {
		LR []string
	} `json:"scheduler_steps"`
	InitialLR   []any `json:"initial_lr"`
	LossTracker []struct {
		Metric, Value string
	} `json:"loss_tracker"`
	TrainFlag []bool `json:"train_flag"`
}

// paEvents are the callbacks of pytorch-accelerated, including what its own callbacks do to the
// loop.
type paEvents struct {
	list      [][]any
	means     []float64
	info      trainer.Info
	max       int
	evalEvery int // StepBasedEvaluationCallback
	stopAfter int // EarlyStoppingCallback, in epochs
	cumulated int // updates in earlier phases
}

func (e *paEvents) add(name string, r *trainer.Run, more ...any) error {
	e.list = append(e.list, append([]any{name, e.cumulated + r.Updates, r.EpochIndex + 1}, more...))
	return nil
}

type flag = map[string]any

func (e *paEvents) TrainBegin(r *trainer.Run) error {
	e.info, e.max = r.Info, r.MaxSteps
	return e.add("on_training_run_start", r)
}
func (e *paEvents) EpochBegin(r *trainer.Run) error { return e.add("on_train_epoch_start", r) }
func (e *paEvents) BatchBegin(r *trainer.Run) error { return e.add("on_train_step_start", r) }
func (e *paEvents) AfterForward(r *trainer.Run) error {
	_ = e.add("on_train_step_end", r, flag{"step": float64(r.Batches)})
	loss, err := r.BatchLoss()
	switch {
	case err != nil:
		return err
	case math.IsNaN(loss.Divided) || math.IsInf(loss.Divided, 0):
		return trainer.StopError("nan")
	case e.evalEvery > 0 && r.Batches > 0 && r.Batches%e.evalEvery == 0:
		_, err = r.Evaluate("intermediate_eval")
	}
	return err
}
func (e *paEvents) AfterBackward(r *trainer.Run) error { return e.add("backward_step", r) }
func (e *paEvents) EpochEnd(r *trainer.Run) error {
	e.means = append(e.means, r.Loss())
	return e.add("on_train_epoch_end", r)
}
func (e *paEvents) AfterSchedule(r *trainer.Run, _ float64) error {
	e.list = append(e.list, []any{"hook:scheduler_step", e.cumulated + r.Updates + 1, r.EpochIndex + 1})
	return nil
}
func (e *paEvents) BeforeUpdate(r *trainer.Run) error { return e.add("hook:optimizer_step", r) }
func (e *paEvents) EvalBegin(r *trainer.Run) error {
	return e.add("on_eval_epoch_start", r, flag{"is_intermediate": r.Aside})
}
func (e *paEvents) EvalStepBegin(r *trainer.Run) error { return e.add("on_eval_step_start", r) }
func (e *paEvents) EvalStep(r *trainer.Run) error      { return e.add("on_eval_step_end", r) }
func (e *paEvents) EvalEnd(r *trainer.Run, _ trainer.Metrics) error {
	return e.add("on_eval_epoch_end", r, flag{"is_intermediate": r.Aside})
}
func (e *paEvents) EpochDone(r *trainer.Run) error {
	_ = e.add("on_training_run_epoch_end", r)
	if r.EpochIndex+1 == e.stopAfter {
		return trainer.StopError("no better")
	}
	return nil
}
func (e *paEvents) Stopped(r *trainer.Run, _ error) error { return e.add("on_stop_training_error", r) }

func TestRecordedRunsOfPytorchAccelerated(t *testing.T) {
	peerCases(t, "pytorch_accelerated", map[string]string{
		"two_of_one_class": "callbacks are those of compat/pytorchaccelerated",
		"ema_batchnorm":    "its evaluation without callbacks is that of compat/pytorchaccelerated",
	}, replayPytorchAccelerated)
}

func replayPytorchAccelerated(t *testing.T, dir string) {
	var spec peerSpec
	var trace paTrace
	readCase(t, dir+"/spec.json", &spec)
	readCase(t, dir+"/trace.json", &trace)
	if len(spec.Phases) == 0 {
		spec.Phases = []json.RawMessage{json.RawMessage(`{"do": "train"}`)}
	}
	micro, updates, evals := 0, 0, 0
	all, clips, modes := &paEvents{}, 0, []bool(nil)
	var rows int
	names := []string{
		"on_training_run_start", "on_train_epoch_start", "on_train_step_start", "on_train_step_end", "backward_step",
		"hook:optimizer_step", "on_train_epoch_end",
		"on_eval_epoch_start", "on_eval_step_start", "on_eval_step_end", "on_eval_epoch_end",
		"on_training_run_epoch_end", "on_stop_training_error",
	}
	for _, c := range spec.Callbacks {
		switch c["kind"] {
		case "step_evaluation":
			all.evalEvery = int(c["eval_every_n_steps"].(float64))
		case "limit_batches":
			rows = int(c["num_batches"].(float64))
		case "early_stopping":
			if n := len(only(trace.Events, 3, "on_training_run_epoch_end")); len(only(trace.Events, 3,
				"on_stop_training_error")) > 0 {
				all.stopAfter = n
			}
		}
	}
	before := 0
	for i, phase := range spec.Phases {
		args := paArgs{NumEpochs: 1, BatchSize: 8, Accumulate: 1, Evaluate: true}
		var own struct {
			Do   string
			Args json.RawMessage
		}
		if err := json.Unmarshal(phase, &own); err != nil {
			t.Fatal(err)
		}
		if own.Do != "train" {
			continue
		}
		for _, text := range []json.RawMessage{spec.Args, own.Args} {
			if text == nil {
				continue
			}
			if err := json.Unmarshal(text, &args); err != nil {
				t.Fatal(err)
			}
		}
		n := rowsOf(t, dir, "train")
		perEpoch := (n + args.BatchSize - 1) / args.BatchSize
		if rows > 0 {
			perEpoch = rows
		}
		o := trainer.Options{
			BatchSize: args.BatchSize, EvalBatchSize: args.BatchSize, Accumulate: args.Accumulate,
			MaxSteps: args.MaxSteps, LimitBatches: rows, LimitEvalBatches: rows,
			Semantics: semantics.PytorchAccelerated, Log: trainer.Every(1, trainer.Epoch), Progress: io.Discard,
			Callbacks: []any{all},
		}
		if args.MaxSteps == 0 {
			o.Epochs = float64(args.NumEpochs)
		}
		first := micro // the order starts over in each phase
		epoch := 0
		if args.ResumeFrom != "" { // metadata of st/epoch_3: the third epoch is repeated
			epoch = 2
			o.Start = &trainer.StartPosition{Epoch: epoch, GlobalStep: updates}
			all.cumulated = 0
		}
		o.Order = data.OrderFunc(func(e, n int) []int {
			return recordedOrder(trace.Batches[first:], perEpoch).Indices(e-epoch, n)
		})
		o.Schedule = paRates(t, trace)
		if args.Scheduler != nil {
			names = append(slices.Clone(names), "hook:scheduler_step")
		}
		step := &peerStep{t: t, trace: &trace.peerTrace, micro: &micro, updates: &updates, evals: &evals}
		tr, err := trainer.New[int, []int](step, o)
		if err != nil {
			t.Fatal(err)
		}
		var valid data.Dataset[int]
		if args.Evaluate {
			valid = trainertest.Samples(rowsOf(t, dir, "eval"))
		}
		if _, err = tr.Fit(t.Context(), trainertest.Samples(n), valid); err != nil {
			t.Fatal(err)
		}
		c := trace.Phases[i].RunConfig
		if all.info.UpdatesPerEpoch != c.Updates {
			t.Errorf("updates per epoch are %d, recorded were %d", all.info.UpdatesPerEpoch, c.Updates)
		}
		if args.ClipValue > 0 {
			clips += step.clips
		}
		modes = append(modes, step.modes...)
		sameEvents(t, only(trace.Events[before:before+trace.Phases[i].Events], 4, names...),
			only(all.list, 4, names...))
		before += trace.Phases[i].Events
		all.list = nil
	}
	var means []float64
	for _, l := range trace.LossTracker {
		if l.Metric == "train_loss_epoch" {
			means = append(means, float(t, l.Value))
		}
	}
	if diff := cmp.Diff(means, all.means); diff != "" {
		t.Errorf("training losses of the epochs (-recorded +ours):\n%s", diff)
	}
	if clips != len(trace.Clips) {
		t.Errorf("clipped %d times, recorded were %d", clips, len(trace.Clips))
	}
	if diff := cmp.Diff(trace.TrainFlag, modes); diff != "" {
		t.Errorf("training modes (-recorded +ours):\n%s", diff)
	}
	if diff := cmp.Diff([]int{len(trace.Batches), len(trace.Updates)}, []int{micro, updates}); diff != "" {
		t.Errorf("micro-batches, updates (-recorded +ours):\n%s", diff)
	}
}

// paRates returns the rate of the first update and those after each step of the scheduler.
func paRates(t *testing.T, trace paTrace) rates {
	series := rates{firstRate(t, trace.Updates[0].LR)}
	for _, s := range trace.Scheduled {
		series = append(series, float(t, s.LR[0]))
	}
	return series
}
