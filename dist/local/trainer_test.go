package local_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/local"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// joining is a step that only notes what a process of several trains on.
type joining struct {
	trainertest.Step
	joined int // in a group of so many
}

func (s *joining) About() trainer.About {
	about := s.Step.About()
	about.JoinsGroup = true
	return about
}

func (s *joining) JoinGroup(_ context.Context, g *dist.Group) error {
	s.joined = g.World()
	return nil
}
func (s *joining) RandomState() ([]byte, error)                              { return nil, nil }
func (s *joining) SetRandomState([]byte) error                               { return nil }
func (s *joining) SharesEval(trainer.Evaluation) bool                        { return false }
func (s *joining) EvalRound(context.Context, trainer.EvalRound[[]int]) error { return nil }

// A Trainer takes goroutines for processes: each trains on its part of an epoch.
func TestATrainerTakesGoroutinesForProcesses(t *testing.T) {
	const world, samples = 3, 12
	var mu sync.Mutex
	seen := map[int]int{}
	for rank, err := range local.Run(t.Context(), world, nil, func(ctx context.Context, g *dist.Group) error {
		step := &joining{}
		step.Loss = func(_ int, batch []int) float64 {
			mu.Lock()
			defer mu.Unlock()
			for _, sample := range batch {
				seen[sample]++
			}
			return 1
		}
		tr, err := trainer.New(step, trainer.Options{Group: g, Epochs: 1, BatchSize: 2, LearningRate: 1,
			Progress: io.Discard})
		if err != nil {
			return err
		}
		if _, err := tr.Fit(ctx, trainertest.Samples(samples), nil); err != nil {
			return err
		}
		if step.joined != world {
			return fmt.Errorf("the step has joined a group of %d", step.joined)
		}
		return nil
	}) {
		require.NoError(t, err, "rank %d", rank)
	}
	require.Len(t, seen, samples)
	for sample, times := range seen {
		assert.Equal(t, 1, times, "sample %d", sample)
	}
}
