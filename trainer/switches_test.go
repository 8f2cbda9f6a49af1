package trainer_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// The switches that no recorded run shows, one by one, with the others at their defaults.

// fitWith trains on the given number of rows, and returns the step, the result and what the hooks
// saw.
func fitWith(t *testing.T, o trainer.Options, rows int) (*trainertest.Step, *trainer.Result) {
	t.Helper()
	step := new(trainertest.Step)
	if o.BatchSize == 0 {
		o.BatchSize = 1
	}
	o.Progress = io.Discard
	tr, err := trainer.New[int, []int](step, o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := tr.Fit(t.Context(), trainertest.Samples(rows), trainertest.Samples(2))
	if err != nil {
		t.Fatal(err)
	}
	return step, r
}

// However a run counts, reports and orders: if it is interrupted anywhere and resumed, it is the
// same as the uninterrupted one, unless a switch says otherwise.
func TestRunsUnderAnySwitchResumeExactly(t *testing.T) {
	for _, c := range []struct {
		claim string
		rules semantics.Rules
	}{
		{"steps that are micro-batches", semantics.Rules{Loop: semantics.HezarLoop}},
		{"a mean of the epoch", semantics.Rules{LossReport: semantics.EpochMean}},
		{"a mean of the window", semantics.Rules{LossReport: semantics.WindowMean}},
		{"windows that run over the ends of epochs", semantics.Rules{Loop: semantics.PyMarlinLoop}},
		{"a running mean", semantics.Rules{Loop: semantics.HezarLoop, LossReport: semantics.RunningMean}},
		{"two iterators", semantics.Rules{TwoIterators: true}},
		{"seeds for every pass", semantics.Rules{SeedEveryPass: true}},
		{"an end by epochs", semantics.Rules{Loop: semantics.PytorchAcceleratedLoop, LimitByEpoch: true}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			o := trainer.Options{
				Epochs: 2, Accumulate: 3, Semantics: c.rules, Log: trainer.Every(2, trainer.Update),
				Save: trainer.Every(2, trainer.Update).AndEpochs(1),
				Eval: trainer.Every(1, trainer.Epoch), Workers: 1,
			}
			o.OutputDir = memoryDir(t)
			whole, want := fitWith(t, o, 8)
			for cut := 1; cut <= want.GlobalStep; cut++ {
				o := o
				o.OutputDir, o.ResumeFrom = memoryDir(t), trainer.Latest
				got, r := fitInterrupted(t, o, 8, cut)
				if got.Weights() != whole.Weights() || got.Generator() != whole.Generator() {
					t.Errorf("interrupted in step %d: other weights or random numbers than the whole run's", cut)
				}
				// A checkpoint in the middle divides a sum of losses in two, so the last bit may
				// differ.
				if diff := cmp.Diff(want.History, r.History, ignoreTimes, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
					t.Errorf("interrupted in step %d: log (-whole +resumed):\n%s", cut, diff)
				}
			}
		})
	}
}

// cancelIn is a hook that cancels a run in a step.
type cancelIn struct {
	step   int
	cancel context.CancelFunc
}

func (c cancelIn) StepBegin(r *trainer.Run) error {
	if r.GlobalStep+1 == c.step {
		c.cancel()
	}
	return nil
}

func fitInterrupted(t *testing.T, o trainer.Options, rows, cut int) (*trainertest.Step, *trainer.Result) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := o
	first.Progress, first.BatchSize = io.Discard, 1
	first.Callbacks = []any{cancelIn{cut, cancel}}
	tr, err := trainer.New[int, []int](new(trainertest.Step), first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Fit(ctx, trainertest.Samples(rows), trainertest.Samples(2)); err != nil &&
		!errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return fitWith(t, o, rows)
}

func TestStepsThatAreMicroBatches(t *testing.T) {
	for _, c := range []struct {
		claim string
		o     trainer.Options
		rows  int
		want  string
	}{
		{"the last window ends with the run", trainer.Options{MaxSteps: 5, Accumulate: 3,
			Semantics: semantics.Rules{Loop: semantics.HezarLoop}}, 8,
			"train(0/3) train(1/3) train(2/3) update train(3/2) train(4/2) update"},
		{"unless a stop takes effect inside a window", trainer.Options{MaxSteps: 5, Accumulate: 3,
			Semantics: semantics.Rules{Loop: semantics.HezarLoop, UnfinishedWindowLost: true}}, 8,
			"train(0/3) train(1/3) train(2/3) update train(3/3) train(4/3)"},
		{"an epoch that is cut ends its window", trainer.Options{Epochs: 2, MaxStepsPerEpoch: 2, Accumulate: 3,
			Semantics: semantics.Rules{Loop: semantics.HezarLoop}}, 8,
			"train(0/2) train(1/2) update train(0/2) train(1/2) update"},
		{"limited epochs are shorter in the plan too", trainer.Options{Epochs: 1, LimitBatches: 4, Accumulate: 3}, 8,
			"train(0/3) train(1/3) train(2/3) update train(3) update"},
		{"an epoch ends after this many updates", trainer.Options{Epochs: 2, MaxStepsPerEpoch: 1, Accumulate: 2}, 8,
			"train(0/2) train(1/2) update train(0/2) train(1/2) update"},
		{"carried windows end in the next epoch", trainer.Options{Epochs: 2, Accumulate: 2,
			Semantics: semantics.Rules{Loop: semantics.PyMarlinLoop}}, 3,
			"train(0/2) train(1/2) update train(2/2) train(0/2) update train(1/2) train(2/2) update"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			c.o.Order = inOrder{}
			c.o.Eval = trainer.Never
			step, _ := fitWith(t, c.o, c.rows)
			if got := updatesOnly(step.Trace()); got != c.want {
				t.Errorf("trace is\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestASaveInsideAWindowWaitsForItsUpdate(t *testing.T) {
	for _, c := range []struct {
		at   bool
		want []string
	}{
		{false, []string{"checkpoint-3", "checkpoint-6", "checkpoint-8"}},
		{true, []string{"checkpoint-2", "checkpoint-4", "checkpoint-6", "checkpoint-8"}},
	} {
		saved := new(events)
		fitWith(t, trainer.Options{
			Epochs: 1, Accumulate: 3, Save: trainer.Every(2, trainer.Update), OutputDir: memoryDir(t),
			Callbacks: []any{saved},
			Semantics: semantics.Rules{Loop: semantics.HezarLoop, SaveInsideWindow: c.at},
		}, 8)
		if diff := cmp.Diff(c.want, saved.saved); diff != "" {
			t.Errorf("SaveInsideWindow %v: checkpoints (-want +got):\n%s", c.at, diff)
		}
	}
}

// inOrder is the order of the samples.
type inOrder struct{}

func (inOrder) Indices(_, n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return order
}

// updatesOnly removes the rates from a trace.
func updatesOnly(trace string) string { return rate.ReplaceAllString(trace, "update") }

var rate = regexp.MustCompile(`update\([^)]*\)`)

// stopper ends the run in one of the events of a hook.
type stopper struct {
	at   string
	runs int
	seen []string
}

func (s *stopper) here(at string) error {
	s.seen = append(s.seen, at)
	if s.at == at {
		return trainer.StopError("enough")
	}
	return nil
}
func (s *stopper) BatchBegin(*trainer.Run) error           { return s.here("batch begin") }
func (s *stopper) AfterForward(*trainer.Run) error         { return s.here("forward") }
func (s *stopper) AfterBackward(*trainer.Run) error        { return s.here("backward") }
func (s *stopper) EpochDone(*trainer.Run) error            { return s.here("epoch done") }
func (s *stopper) EvalStepBegin(*trainer.Run) error        { return s.here("eval") }
func (s *stopper) Stopped(_ *trainer.Run, err error) error { return s.here("stopped: " + err.Error()) }
func (s *stopper) TrainEnd(*trainer.Run) error             { s.runs++; return s.here("end") }

func TestStopErrorEndsTheRunWellFromAnywhere(t *testing.T) {
	for _, c := range []struct {
		at    string
		steps int
	}{{"batch begin", 0}, {"forward", 0}, {"backward", 0}, {"eval", 2}, {"epoch done", 2}} {
		s := &stopper{at: c.at}
		_, r := fitWith(t, trainer.Options{Epochs: 3, Accumulate: 2, Callbacks: []any{s}}, 4)
		if r.GlobalStep != c.steps || r.StopReason != "enough" {
			t.Errorf("stopped at %s: step %d, reason %q, want %d and \"enough\"", c.at, r.GlobalStep, r.StopReason,
				c.steps)
		}
		if last := s.seen[len(s.seen)-2:]; s.runs != 1 || last[0] != "stopped: enough" || last[1] != "end" {
			t.Errorf("stopped at %s: the last events are %q, want the stop and one end", c.at, last)
		}
	}
}

func TestStopErrorAtTheEndIsAnError(t *testing.T) {
	tr, err := trainer.New[int, []int](new(trainertest.Step), trainer.Options{Epochs: 1,
		Callbacks: []any{&stopper{at: "end"}}, Progress: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Fit(t.Context(), trainertest.Samples(2), nil); err == nil {
		t.Error("Fit = nil, want the error of the hook, since the run was ending already")
	}
}

func TestStartAndSaverAreChecked(t *testing.T) {
	saver := new(pmEvents)
	for _, c := range []struct {
		claim string
		o     trainer.Options
		want  string
	}{
		{"a negative start", trainer.Options{Start: &trainer.StartPosition{Epoch: -1}}, "no negative number"},
		{"a start after the end of the epoch", trainer.Options{Start: &trainer.StartPosition{Batches: 9}},
			"at most the 4 batches"},
		{"a window under way where none is carried", trainer.Options{Accumulate: 2,
			Start: &trainer.StartPosition{WindowPhase: 1}}, "under way"},
		{"a start and a resume", trainer.Options{OutputDir: t.TempDir(), ResumeFrom: trainer.Latest,
			Start: &trainer.StartPosition{}}, "ResumeFrom is set"},
		{"a saver and the best at the end", trainer.Options{Saver: saver, LoadBestAtEnd: true}, "its own way"},
		{"steps of a schedule that follows updates", trainer.Options{ScheduleSteps: 2}, "HezarLoop counts steps"},
		{"a negative limit", trainer.Options{LimitBatches: -1}, "Options.LimitBatches"},
		{"epochs of no trigger", trainer.Options{Log: trainer.Never.AndEpochs(1)}, "counts updates before AndEpochs"},
		{"a switch of another loop", trainer.Options{Semantics: semantics.Rules{ClipEveryBatch: true}},
			"only PytorchAcceleratedLoop reads"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			c.o.Progress, c.o.BatchSize = io.Discard, 1
			tr, err := trainer.New[int, []int](new(trainertest.Step), c.o)
			if err == nil {
				_, err = tr.Fit(t.Context(), trainertest.Samples(4), nil)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestALimitedEvaluationSeesItsFirstBatches(t *testing.T) {
	step, _ := fitWith(t, trainer.Options{Epochs: 1, EvalBatchSize: 1, LimitEvalBatches: 1}, 2)
	if !strings.Contains(step.Trace(), "eval(0) metrics") || step.Evaluations[0].Rows != 1 {
		t.Errorf("trace is %s, rows are %d; want one batch and one row", step.Trace(), step.Evaluations[0].Rows)
	}
}

// keeper is a Saver that keeps the state in memory and the step's files in a folder.
type keeper struct {
	t     *testing.T
	step  *trainertest.Step
	saves []kept
}

type kept struct {
	dir   string
	state []byte
}

func (k *keeper) SaveCheckpoint(_ *trainer.Run, state []byte) (string, error) {
	dir := k.t.TempDir()
	k.saves = append(k.saves, kept{dir, state})
	return dir, k.step.Save(dir, trainer.SaveOptions{Gradients: true})
}

// Under every loop, a run that begins from what a Saver was given is the same as the run that wrote
// it.
func TestARunContinuesFromTheStateOfASaver(t *testing.T) {
	mended := func(l semantics.Loop) semantics.Rules { return semantics.Rules{Loop: l} }
	for _, rules := range []semantics.Rules{mended(semantics.DefaultLoop), mended(semantics.HuggingFaceLoop),
		mended(semantics.HezarLoop), mended(semantics.PytorchAcceleratedLoop), mended(semantics.PyMarlinLoop)} {
		fit := func(start *trainer.StartPosition, step *trainertest.Step, saver *keeper) *trainer.Result {
			tr, err := trainer.New[int, []int](step, trainer.Options{
				Epochs: 2, Accumulate: 3, BatchSize: 1, Semantics: rules, Start: start, Saver: saver,
				Save: trainer.Every(2, trainer.Update).AndEpochs(1), Log: trainer.Every(2, trainer.Update),
				Progress: io.Discard,
			})
			require.NoError(t, err)
			r, err := tr.Fit(t.Context(), trainertest.Samples(8), trainertest.Samples(2))
			require.NoError(t, err)
			return r
		}
		whole := &keeper{t: t, step: new(trainertest.Step)}
		want := fit(nil, whole.step, whole)
		require.NotEmpty(t, whole.saves)
		for i, s := range whole.saves {
			step := new(trainertest.Step)
			load := func() error { return step.Load(s.dir, trainer.LoadOptions{}) }
			got := fit(&trainer.StartPosition{State: s.state, Load: load}, step, &keeper{t: t, step: step})
			assert.Equal(t, whole.step.Weights(), step.Weights(), "loop %d, save %d: weights", rules.Loop, i)
			assert.Equal(t, whole.step.Generator(), step.Generator(), "loop %d, save %d: random numbers", rules.Loop, i)
			diff := cmp.Diff(want.History, got.History, ignoreTimes, cmpopts.EquateApprox(0, 1e-12))
			assert.Empty(t, diff, "loop %d, save %d: log", rules.Loop, i)
		}
	}
}

// If a run was ended by MaxSteps inside an epoch and is then extended, it continues in that epoch.
func TestARunThatEndedInsideAnEpochIsMadeLonger(t *testing.T) {
	for _, l := range []semantics.Loop{semantics.DefaultLoop, semantics.HezarLoop, semantics.PytorchAcceleratedLoop} {
		fit := func(steps int, start *trainer.StartPosition, step *trainertest.Step, saver *keeper) {
			o := trainer.Options{BatchSize: 1, MaxSteps: steps, Semantics: semantics.Rules{Loop: l}, Start: start,
				Saver: saver, Save: trainer.Every(1, trainer.Epoch), Schedule: lr.Constant{}, Progress: io.Discard}
			tr, err := trainer.New[int, []int](step, o)
			require.NoError(t, err)
			_, err = tr.Fit(t.Context(), trainertest.Samples(8), nil)
			require.NoError(t, err)
		}
		whole, short, longer := new(trainertest.Step), new(trainertest.Step), new(trainertest.Step)
		fit(12, nil, whole, &keeper{t: t, step: whole})
		saves := &keeper{t: t, step: short}
		fit(3, nil, short, saves)
		last := saves.saves[len(saves.saves)-1]
		fit(12, &trainer.StartPosition{State: last.state, Load: func() error {
			return longer.Load(last.dir, trainer.LoadOptions{})
		}}, longer, &keeper{t: t, step: longer})
		assert.Equal(t, whole.Weights(), longer.Weights(), "loop %d: weights", l)
	}
}

// Hezar's loop saves before it evaluates, so the best model needs a save of its own.
func TestTheBestModelIsSavedInHezarsLoop(t *testing.T) {
	for _, interval := range []trainer.Trigger{trainer.Every(2, trainer.Update), trainer.Every(1, trainer.Epoch)} {
		for _, save := range []trainer.Trigger{trainer.AtBest, interval} {
			values := []float64{0.3, 0.1, 0.2}
			step := &trainertest.Step{EvalMetrics: func(n int, _ []int) trainer.Metrics {
				return trainer.Metrics{"loss": values[n-1]}
			}}
			dir := t.TempDir()
			tr, err := trainer.New[int, []int](step, trainer.Options{Semantics: semantics.Hezar, Epochs: 3, BatchSize: 1,
				OutputDir: dir, Eval: interval, Save: save, LoadBestAtEnd: true, Progress: io.Discard})
			require.NoError(t, err)
			r, err := tr.Fit(t.Context(), trainertest.Samples(2), trainertest.Samples(1))
			require.NoError(t, err)
			best := filepath.Join(dir, "checkpoint-4")
			assert.Equal(t, best, r.Best.Checkpoint)
			assert.Empty(t, r.Warnings)
			assert.True(t, strings.HasSuffix(step.Trace(), "weights(checkpoint-4)"), step.Trace())

			again := &trainertest.Step{EvalMetrics: func(int, []int) trainer.Metrics { return trainer.Metrics{"loss": 0.2} }}
			tr, err = trainer.New[int, []int](again, trainer.Options{Semantics: semantics.Hezar, Epochs: 3, BatchSize: 1,
				OutputDir: dir, Eval: interval, Save: save, LoadBestAtEnd: true, Progress: io.Discard, ResumeFrom: best})
			require.NoError(t, err)
			r, err = tr.Fit(t.Context(), trainertest.Samples(2), trainertest.Samples(1))
			require.NoError(t, err)
			assert.Equal(t, trainer.Best{Metric: "eval_loss", Value: 0.1, Metrics: r.Best.Metrics, GlobalStep: 4,
				Checkpoint: best}, r.Best, "the checkpoint knows that its model is the best")
			assert.Equal(t, 1, strings.Count(again.Trace(), "metrics"), again.Trace())
		}
	}
}
