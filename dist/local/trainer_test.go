package local_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/local"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// joining is a step that only records what its process trains on.
type joining struct {
	trainertest.Step
	joined int // world size of the group
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

// A Trainer treats goroutines like processes: each trains on its part of an epoch.
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

// stuck is a Pusher whose uploads last until the context ends.
type stuck struct{ begun chan struct{} }

func (p stuck) Push(ctx context.Context, _ checkpoint.Upload) error {
	close(p.begun)
	<-ctx.Done()
	return context.Cause(ctx)
}

// Only the main process uploads, and waits for the upload after the updates: the other processes
// cannot take part in interrupting it then.
func TestAnUploadOfAGroupEndsWithTheContextOfItsProcess(t *testing.T) {
	dir, why := t.TempDir(), errors.New("a signal")
	var warnings []string
	for rank, err := range local.Run(t.Context(), 2, nil, func(ctx context.Context, g *dist.Group) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		pusher := stuck{make(chan struct{})}
		o := trainer.Options{Group: g, OutputDir: dir, Epochs: 1, BatchSize: 2, Progress: io.Discard, Pusher: pusher,
			PushStrategy: trainer.PushAtEnd}
		tr, err := trainer.New(&joining{}, o)
		if err != nil {
			return err
		}
		if g.Main() {
			go func() {
				<-pusher.begun
				cancel(why)
			}()
		}
		result, err := tr.Fit(ctx, trainertest.Samples(8), nil)
		if err == nil && g.Main() {
			warnings = result.Warnings
		}
		return err
	}) {
		require.NoError(t, err, "rank %d", rank)
	}
	require.Len(t, warnings, 1)
	assert.Contains(t, warnings[0], "could not be uploaded: a signal")
}

// A process that cannot load a batch reports the reason to the others, which wait for it.
func TestTheOthersHearOfABatchThatCannotBeLoaded(t *testing.T) {
	bad := data.Func(8, func(i int) (int, error) {
		if i == 5 {
			return 0, errors.New("sample 5 is damaged")
		}
		return i, nil
	})
	for rank, err := range local.Run(t.Context(), 2, nil, func(ctx context.Context, g *dist.Group) error {
		tr, err := trainer.New(&joining{}, trainer.Options{Group: g, Epochs: 1, BatchSize: 1, Progress: io.Discard})
		if err != nil {
			return err
		}
		_, err = tr.Fit(ctx, bad, nil)
		return err
	}) {
		assert.ErrorContains(t, err, "sample 5 is damaged", "rank %d", rank)
	}
}
