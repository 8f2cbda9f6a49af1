package trainer_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// TestAnInterruptedRunThatNeverSaves: SaveInterrupted saves even if Save is Never, and the run
// continues from there like an uninterrupted one.
func TestAnInterruptedRunThatNeverSaves(t *testing.T) {
	for _, saves := range []bool{false, true} {
		o := trainer.Options{OutputDir: t.TempDir(), Epochs: 2, BatchSize: 2, Save: trainer.Never,
			SaveInterrupted: saves, Progress: io.Discard}
		ctx, cancel := context.WithCancel(t.Context())
		_, err := runOnce(ctx, &trainertest.Step{Inject: func(op string, n int) error {
			if op == "train" && n == 3 {
				cancel()
			}
			return nil
		}}, o)
		cancel()
		var interrupted *trainer.InterruptedError
		require.ErrorAs(t, err, &interrupted)
		require.Equal(t, saves, interrupted.Checkpoint != "", interrupted)
		if !saves {
			require.ErrorContains(t, err, "SaveInterrupted")
			continue
		}
		o.ResumeFrom = trainer.Latest
		resumed, err := runOnce(t.Context(), new(trainertest.Step), o)
		require.NoError(t, err)
		o.OutputDir, o.ResumeFrom = t.TempDir(), ""
		whole, err := runOnce(t.Context(), new(trainertest.Step), o)
		require.NoError(t, err)
		require.Equal(t, whole.Weights, resumed.Weights)
	}
}

func TestNobodyIsAskedForTheNumbersOfAnInterruptedEvaluation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	step := &trainertest.Step{
		Inject: func(op string, n int) error {
			if op == "eval" && n == 2 {
				cancel()
			}
			return nil
		},
		EvalMetrics: func(int, []int) trainer.Metrics { panic("of a part") },
	}
	tr, err := trainer.New[int, []int](step, trainer.Options{Epochs: 1, BatchSize: 1, Progress: io.Discard})
	require.NoError(t, err)
	_, err = tr.Fit(ctx, trainertest.Samples(2), trainertest.Samples(20))
	var interrupted *trainer.InterruptedError
	require.ErrorAs(t, err, &interrupted)
	require.Equal(t, 2, interrupted.GlobalStep)
}

// seedSeen is a hook that records the seeds of the run.
type seedSeen []uint64

func (s *seedSeen) TrainBegin(r *trainer.Run) error {
	*s = []uint64{r.Info.Seed, r.Info.DataSeed}
	return nil
}

// TestSeedZero: zero in Options is 42, SeedZero is 0.
func TestSeedZero(t *testing.T) {
	for _, c := range []struct{ seed, data, wantSeed, wantData uint64 }{
		{0, 0, 42, 42}, {trainer.SeedZero, 0, 0, 0}, {7, trainer.SeedZero, 7, 0}, {7, 0, 7, 7},
	} {
		var seen seedSeen
		_, err := runOnce(t.Context(), new(trainertest.Step), trainer.Options{Seed: c.seed, DataSeed: c.data,
			Progress: io.Discard, Callbacks: []any{&seen}})
		require.NoError(t, err)
		require.Equal(t, seedSeen{c.wantSeed, c.wantData}, seen, c)
	}
}
