package trainer_test

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// aroundEpoch notes when an epoch is trained on, and does what the test wants in it.
type aroundEpoch struct {
	name   string
	events *[]string
	do     func(r *trainer.Run, train func() error) error
}

func (a aroundEpoch) AroundEpoch(r *trainer.Run, train func() error) error {
	*a.events = append(*a.events, a.name+" begins")
	defer func() { *a.events = append(*a.events, a.name+" ends") }()
	if a.do == nil {
		return train()
	}
	return a.do(r, train)
}

func (a aroundEpoch) EpochBegin(*trainer.Run) error { return a.note("epoch") }
func (a aroundEpoch) StepEnd(*trainer.Run) error    { return a.note("step") }
func (a aroundEpoch) EpochEnd(*trainer.Run) error   { return a.note("epoch end") }
func (a aroundEpoch) note(event string) error {
	if a.name == "outer" {
		*a.events = append(*a.events, event)
	}
	return nil
}

func fitAround(t *testing.T, hooks ...any) (*trainer.Result, error) {
	t.Helper()
	tr, err := trainer.New[int, []int](new(trainertest.Step), trainer.Options{Epochs: 2, BatchSize: 1, Callbacks: hooks,
		Progress: io.Discard})
	require.NoError(t, err)
	return tr.Fit(t.Context(), trainertest.Samples(2), nil)
}

func TestAroundEpochIsAroundTheStepsOfAnEpoch(t *testing.T) {
	var events []string
	_, err := fitAround(t, aroundEpoch{name: "outer", events: &events}, aroundEpoch{name: "inner", events: &events})
	require.NoError(t, err)
	epoch := []string{"epoch", "outer begins", "inner begins", "step", "step", "inner ends", "outer ends", "epoch end"}
	assert.Equal(t, append(epoch, epoch...), events)
}

func TestAroundEpochMayEndTheRun(t *testing.T) {
	var events []string
	failure := errors.New("no more")
	for _, c := range []struct {
		claim   string
		do      func(r *trainer.Run, train func() error) error
		updates int
	}{
		{"Stop before", func(r *trainer.Run, train func() error) error { r.Stop("enough"); return train() }, 1},
		{"Stop behind", func(r *trainer.Run, train func() error) error { defer r.Stop("enough"); return train() }, 2},
		{"StopError", func(_ *trainer.Run, train func() error) error {
			return errors.Join(train(), trainer.StopError("enough"))
		}, 2},
	} {
		result, err := fitAround(t, aroundEpoch{events: &events, do: c.do})
		require.NoError(t, err, c.claim)
		assert.Equal(t, c.updates, result.GlobalStep, "%s: updates", c.claim)
	}
	_, err := fitAround(t, aroundEpoch{events: &events, do: func(_ *trainer.Run, train func() error) error {
		return errors.Join(train(), failure)
	}})
	require.ErrorIs(t, err, failure)
	var hook *trainer.HookError
	require.ErrorAs(t, err, &hook)
	assert.Equal(t, "AroundEpoch", hook.Event)
}

func TestAroundEpochTrainsOnceAndHidesNoError(t *testing.T) {
	var events []string
	_, err := fitAround(t, aroundEpoch{events: &events, do: func(*trainer.Run, func() error) error { return nil }})
	require.ErrorContains(t, err, "has not called train")
	_, err = fitAround(t, aroundEpoch{events: &events, do: func(_ *trainer.Run, train func() error) error {
		return errors.Join(train(), train())
	}})
	require.ErrorContains(t, err, "called train twice")
	failure := errors.New("out of paper")
	var told error
	_, err = fitAround(t, aroundEpoch{events: &events, do: func(_ *trainer.Run, train func() error) error {
		told = train()
		return nil
	}}, failing{failure})
	require.ErrorIs(t, told, failure, "what train returns")
	require.ErrorIs(t, err, failure, "what Fit returns though the hook keeps it to itself")
}

// failing is a hook that fails at the end of the first step.
type failing struct{ err error }

func (f failing) StepEnd(*trainer.Run) error { return f.err }

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

// losses looks at the loss behind every step.
type losses func(r *trainer.Run)

func (f losses) StepEnd(r *trainer.Run) error { f(r); return nil }
