package trainer_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// recyclingStep is the recording step with batches in reused memory. A batch that is given back is
// overwritten immediately, so that later reads of it are noticed.
type recyclingStep struct {
	trainertest.Step
	memory   data.Buffers[int]
	recycled atomic.Int64
	spoilt   bool // a batch was used after it had been given back
}

const spoilt = -1

func (s *recyclingStep) About() trainer.About {
	about := s.Step.About()
	about.Recycles = true
	return about
}

func (s *recyclingStep) Collate(samples []int) ([]int, error) {
	b := s.memory.Get(len(samples))
	copy(b, samples)
	return b, nil
}

func (s *recyclingStep) Recycle(b []int) {
	s.recycled.Add(1)
	for i := range b {
		b[i] = spoilt
	}
	s.memory.Put(b)
}

func (s *recyclingStep) Train(ctx context.Context, b []int, w trainer.Window) error {
	s.spoilt = s.spoilt || slices.Contains(b, spoilt)
	return s.Step.Train(ctx, b, w)
}

func (s *recyclingStep) Eval(ctx context.Context, b []int) error {
	s.spoilt = s.spoilt || slices.Contains(b, spoilt)
	return s.Step.Eval(ctx, b)
}

// batchKeeper is a hook that keeps every third batch.
type batchKeeper struct{ kept, copies [][]int }

func (k *batchKeeper) BatchBegin(r *trainer.Run) error {
	if r.GlobalStep%3 == 0 {
		batch := r.Batch().([]int) //nolint:forcetypeassert // a step of trainertest
		k.kept, k.copies = append(k.kept, batch), append(k.copies, slices.Clone(batch))
	}
	return nil
}

func TestBatchesThatAreUsedAgainAreThoseOfARunThatMakesThemAnew(t *testing.T) {
	for i, o := range []trainer.Options{
		{BatchSize: 2, Epochs: 3},
		{BatchSize: 3, Epochs: 2, Accumulate: 3, Workers: 4},
		{BatchSize: 1, Epochs: 2, Accumulate: 4, Prefetch: 1, Semantics: semantics.PytorchAccelerated},
		{BatchSize: 5, Epochs: 2, Eval: trainer.Every(3, trainer.Update), Workers: 3},
		{BatchSize: 4, Epochs: 2, DivideOnOutOfMemory: true},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			run := func(step trainer.Step[int, []int], hooks ...any) {
				o := o
				o.LearningRate, o.OutputDir, o.Save, o.Callbacks = 0.1, "", trainer.Never, hooks
				tr, err := trainer.New(step, o)
				require.NoError(t, err)
				_, err = tr.Fit(t.Context(), trainertest.Samples(61), trainertest.Samples(11))
				require.NoError(t, err)
			}
			var anew trainertest.Step
			var step recyclingStep
			var k batchKeeper
			run(&anew)
			run(&step, &k)
			assert.Equal(t, anew.Weights(), step.Weights())
			assert.Equal(t, anew.Trace(), step.Trace())
			assert.False(t, step.spoilt, "a batch that had been given back was used")
			assert.NotEmpty(t, k.kept)
			assert.Equal(t, k.copies, k.kept, "a batch that a hook has kept")
			if o.DivideOnOutOfMemory {
				assert.Zero(t, step.recycled.Load())
			} else {
				assert.Positive(t, step.recycled.Load())
			}
		})
	}
}

func TestBatchesOfAStreamAreUsedAgain(t *testing.T) {
	var step recyclingStep
	tr, err := trainer.New(&step, trainer.Options{LearningRate: 0.1, BatchSize: 2, MaxSteps: 40})
	require.NoError(t, err)
	stream, err := data.ShuffleStream(data.StreamOf(trainertest.Samples(30), data.Sequential{}), 8, 1)
	require.NoError(t, err)
	_, err = tr.FitStream(t.Context(), stream, nil)
	require.NoError(t, err)
	assert.False(t, step.spoilt)
	assert.Positive(t, step.recycled.Load())
}
