package trainer_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// epochDone is a hook that evaluates by itself at the end of an epoch, and writes the checkpoints.
type epochDone struct {
	evaluate func(epoch int) error
	done     []int // epochs
	saves    []int // steps
	state    []byte
}

func (e *epochDone) EpochDone(r *trainer.Run) error {
	e.done = append(e.done, r.EpochIndex)
	return e.evaluate(r.EpochIndex)
}

func (e *epochDone) SaveCheckpoint(r *trainer.Run, state []byte) (string, error) {
	e.saves, e.state = append(e.saves, r.GlobalStep), state
	return "a checkpoint", nil
}

func fitDone(ctx context.Context, e *epochDone, rules semantics.Rules, from *trainer.StartPosition) (*trainer.Result,
	error) {
	tr, err := trainer.New[int, []int](new(trainertest.Step), trainer.Options{Epochs: 3, BatchSize: 1, Semantics: rules,
		Callbacks: []any{e}, Saver: e, Save: trainer.Every(1, trainer.Epoch), Start: from, Progress: io.Discard})
	if err != nil {
		return nil, err
	}
	return tr.Fit(ctx, trainertest.Samples(2), nil)
}

func TestAnEvaluationInEpochDoneThatIsCancelledIsMadeByTheResumedRun(t *testing.T) {
	marlin := semantics.PyMarlin
	marlin.LossReport = semantics.SinceLog
	for _, rules := range []semantics.Rules{semantics.Default, marlin} {
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		first := &epochDone{evaluate: func(epoch int) error {
			if epoch == 1 {
				cancel(cause)
				return cause
			}
			return nil
		}}
		_, err := fitDone(ctx, first, rules, nil)
		var stopped *trainer.InterruptedError
		require.ErrorAs(t, err, &stopped, rules.Name)
		require.ErrorIs(t, err, cause)
		require.Equal(t, "a checkpoint", stopped.Checkpoint)
		require.Equal(t, []int{2, 4}, first.saves)
		again := &epochDone{evaluate: func(int) error { return nil }}
		_, err = fitDone(t.Context(), again, rules, &trainer.StartPosition{State: first.state})
		require.NoError(t, err, rules.Name)
		require.Equal(t, []int{1, 2}, again.done, "%s: epochs whose end the hook of the resumed run sees", rules.Name)
		require.Equal(t, []int{4, 6}, again.saves, "%s: the save that follows is still due", rules.Name)
	}
}

func TestAnotherErrorOfEpochDoneIsThatOfTheHook(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	boom := errors.New("boom")
	_, err := fitDone(ctx, &epochDone{evaluate: func(int) error { cancel(); return boom }}, semantics.Default, nil)
	var hook *trainer.HookError
	require.ErrorAs(t, err, &hook)
	require.ErrorIs(t, err, boom)
}

// A run that continues with larger batches has already made more steps than it now plans.
func TestOnlyItsEpochsEndARunOfPyMarlin(t *testing.T) {
	rules := semantics.PyMarlin
	rules.LossReport = semantics.SinceLog
	e := &epochDone{evaluate: func(int) error { return nil }}
	r, err := fitDone(t.Context(), e, rules, &trainer.StartPosition{Epoch: 1, GlobalStep: 100})
	require.NoError(t, err)
	require.Equal(t, 104, r.GlobalStep)
	require.Equal(t, []int{1, 2}, e.done)
}
