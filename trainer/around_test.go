package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// stateKeeper keeps the state of the run at every event in which a hook may call Run.State.
type stateKeeper struct {
	keeper
	off bool
}

func (k *stateKeeper) keep(r *trainer.Run, done bool) error {
	if k.off {
		return nil
	}
	state, err := r.State(done)
	if err != nil {
		return err
	}
	_, err = k.SaveCheckpoint(r, state)
	return err
}

func (k *stateKeeper) TrainBegin(r *trainer.Run) error { return k.keep(r, true) }
func (k *stateKeeper) StepEnd(r *trainer.Run) error {
	if r.Batches%3 != 0 && r.Batches%8 != 0 && r.Info.Semantics.CountsBatches() {
		return nil // inside a window
	}
	return k.keep(r, true)
}
func (k *stateKeeper) EpochEnd(r *trainer.Run) error  { return k.keep(r, false) }
func (k *stateKeeper) EpochDone(r *trainer.Run) error { return k.keep(r, true) }
func (k *stateKeeper) TrainEnd(r *trainer.Run) error  { return k.keep(r, true) }
func (k *stateKeeper) AroundEpoch(r *trainer.Run, train func() error) error {
	if err := k.keep(r, false); err != nil {
		return err
	}
	if err := train(); err != nil {
		return err
	}
	return k.keep(r, false)
}

// Under every loop, a run that begins from the state that a hook requested is the run that the hook
// saw.
func TestARunContinuesFromTheStateThatAHookAskedFor(t *testing.T) {
	for _, loop := range []semantics.Loop{semantics.DefaultLoop, semantics.HuggingFaceLoop, semantics.HezarLoop,
		semantics.PytorchAcceleratedLoop, semantics.PyMarlinLoop} {
		fit := func(start *trainer.StartPosition, k *stateKeeper) *trainer.Result {
			tr, err := trainer.New[int, []int](k.step, trainer.Options{
				Epochs: 2, Accumulate: 3, BatchSize: 1, Semantics: semantics.Rules{Loop: loop}, Start: start,
				Log: trainer.Every(2, trainer.Update), Progress: io.Discard, Callbacks: []any{k},
			})
			require.NoError(t, err)
			r, err := tr.Fit(t.Context(), trainertest.Samples(8), trainertest.Samples(2))
			require.NoError(t, err)
			return r
		}
		whole := &stateKeeper{keeper: keeper{t: t, step: new(trainertest.Step)}}
		want := fit(nil, whole)
		require.Greater(t, len(whole.saves), 12)
		for i, s := range whole.saves {
			step := new(trainertest.Step)
			load := func() error { return step.Load(s.dir, trainer.LoadOptions{}) }
			got := fit(&trainer.StartPosition{State: s.state, Load: load},
				&stateKeeper{keeper: keeper{t: t, step: step}, off: true})
			assert.Equal(t, whole.step.Weights(), step.Weights(), "loop %d, state %d: weights", loop, i)
			assert.Equal(t, whole.step.Generator(), step.Generator(), "loop %d, state %d: random numbers", loop, i)
			last := func(h []trainer.Logs) []trainer.Logs { return h[:len(h)-1] } // a finished run ends again
			if i < len(whole.saves)-1 {
				last = func(h []trainer.Logs) []trainer.Logs { return h }
			} else {
				got.History = got.History[:len(want.History)]
			}
			diff := cmp.Diff(last(want.History), last(got.History), ignoreTimes, cmpopts.EquateApprox(0, 1e-12))
			assert.Empty(t, diff, "loop %d, state %d: log", loop, i)
		}
	}
}

// aroundEpoch is a hook around epochs that records what it sees.
type aroundEpoch struct {
	list   []string
	limit  int             // batches of the second epoch; 0: all
	leave  int             // the epoch that is not trained, counted from 1; 0: none
	fail   int             // the epoch that fails after it was trained
	in     error           // what BatchBegin returns in the second epoch
	cancel func()          // called by EpochDone, which then returns the error of ctx
	ctx    context.Context //nolint:containedctx // a hook has no other way to a context
}

func (a *aroundEpoch) AroundEpoch(r *trainer.Run, train func() error) error {
	if a.limit > 0 && r.EpochIndex == 1 {
		r.LimitBatches(a.limit)
	}
	if a.leave == r.EpochIndex+1 {
		return nil
	}
	a.list = append(a.list, fmt.Sprintf("(%d", r.GlobalStep))
	err := train()
	a.list = append(a.list, fmt.Sprintf("%d)", r.GlobalStep))
	if err == nil && a.fail == r.EpochIndex+1 {
		err = errors.New("out of paper")
	}
	return err
}

func (a *aroundEpoch) BatchBegin(r *trainer.Run) error {
	if r.EpochIndex == 1 {
		return a.in
	}
	return nil
}

func (a *aroundEpoch) EpochDone(r *trainer.Run) error {
	if a.cancel == nil {
		return nil
	}
	a.cancel()
	return fmt.Errorf("gave up: %w", a.ctx.Err())
}

// fitAround runs two epochs of four batches in windows of two.
func fitAround(ctx context.Context, a *aroundEpoch) (*trainertest.Step, *trainer.Result, error) {
	step := new(trainertest.Step)
	o := trainer.Options{Epochs: 2, Accumulate: 2, BatchSize: 1, Progress: io.Discard, Callbacks: []any{a}}
	tr, err := trainer.New[int, []int](step, o)
	if err != nil {
		return step, nil, err
	}
	r, err := tr.Fit(ctx, trainertest.Samples(4), nil)
	return step, r, err
}

func TestHooksAroundEpochs(t *testing.T) {
	for _, c := range []struct {
		claim     string
		a         aroundEpoch
		list, err string
		steps     int
	}{
		{"an epoch is between", aroundEpoch{}, "(0 2) (2 4)", "", 4},
		{"an epoch may be left out", aroundEpoch{leave: 1}, "(0 2)", "", 2},
		{"an error ends the run", aroundEpoch{fail: 1}, "(0 2)", "AroundEpoch after update 2: out of paper", 0},
		{"the error of a batch passes through", aroundEpoch{in: errors.New("torn")}, "(0 2) (2 2)",
			"BatchBegin after update 2: torn", 0},
		{"a hook ends the run well", aroundEpoch{in: trainer.StopError("enough")}, "(0 2) (2 2)", "", 2},
		{"the batches of an epoch are limited", aroundEpoch{limit: 1}, "(0 2) (2 3)", "", 3},
		{"a limit after the end has no effect", aroundEpoch{limit: 9}, "(0 2) (2 4)", "", 4},
	} {
		t.Run(c.claim, func(t *testing.T) {
			_, r, err := fitAround(t.Context(), &c.a)
			assert.Equal(t, c.list, strings.Join(c.a.list, " "))
			if c.err != "" {
				assert.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.steps, r.GlobalStep)
		})
	}
}

// A hook that returns the context's error, as one that evaluates does, is called for the same event
// again when the run is resumed.
func TestAHookThatGivesUpIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	saver := &keeper{t: t}
	step := new(trainertest.Step)
	saver.step = step
	a := &aroundEpoch{cancel: cancel, ctx: ctx}
	o := trainer.Options{Epochs: 2, Accumulate: 2, BatchSize: 1, Progress: io.Discard, Saver: saver,
		Callbacks: []any{a}}
	tr, err := trainer.New[int, []int](step, o)
	require.NoError(t, err)
	_, err = tr.Fit(ctx, trainertest.Samples(4), nil)
	var interrupted *trainer.InterruptedError
	require.ErrorAs(t, err, &interrupted)
	require.NotEmpty(t, interrupted.Checkpoint)

	again := &epochsDone{}
	resumed := new(trainertest.Step)
	o.Callbacks, o.Saver = []any{again}, nil
	o.Start = &trainer.StartPosition{State: saver.saves[0].state,
		Load: func() error { return resumed.Load(saver.saves[0].dir, trainer.LoadOptions{}) }}
	tr, err = trainer.New[int, []int](resumed, o)
	require.NoError(t, err)
	_, err = tr.Fit(t.Context(), trainertest.Samples(4), nil)
	require.NoError(t, err)
	assert.Equal(t, []int{0, 1}, again.epochs)
	whole, _, err := fitAround(t.Context(), &aroundEpoch{})
	require.NoError(t, err)
	assert.Equal(t, whole.Weights(), resumed.Weights())
}

type epochsDone struct{ epochs []int }

func (e *epochsDone) EpochDone(r *trainer.Run) error {
	e.epochs = append(e.epochs, r.EpochIndex)
	return nil
}
func TestRunningLossIsWhatTheLossIsMadeOf(t *testing.T) {
	var got []trainer.RunningLoss
	step := new(trainertest.Step)
	for _, rules := range []semantics.Rules{semantics.Hezar, {Loop: semantics.HezarLoop,
		LossReport: semantics.RunningMean}} {
		got = nil
		tr, err := trainer.New[int, []int](step, trainer.Options{Epochs: 1, BatchSize: 1, Accumulate: 2,
			Semantics: rules, Progress: io.Discard, Callbacks: []any{losses(func(r *trainer.Run) {
				assert.Equal(t, r.Loss(), r.RunningLoss().Mean)
				if l := r.RunningLoss(); len(got) == 0 || got[len(got)-1].Windows != l.Windows {
					got = append(got, l)
				}
			})}})
		require.NoError(t, err)
		_, err = tr.Fit(t.Context(), trainertest.Samples(3), nil)
		require.NoError(t, err)
		require.Len(t, got, 3, "none, a window of two, a short one")
		assert.InDelta(t, got[1].Window+got[2].Window, got[2].Sum, 1e-12)
		assert.InDelta(t, got[2].Sum/2, got[2].Mean, 1e-12)
	}
}

// losses is a hook that looks at the loss after every step.
type losses func(r *trainer.Run)

func (f losses) StepEnd(r *trainer.Run) error { f(r); return nil }
