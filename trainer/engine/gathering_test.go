package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// exchanging gathers what its processes have, and draws a number on each.
type exchanging struct {
	*numbered
	rows    [][]float32 // of all processes, by pass
	objects [][]string
	drawn   []float64
	refuses int // the rank whose objects cannot be encoded; 0: none
}

func (e *exchanging) DeviceSpecificSeed() {}

func (e *exchanging) Loss(p engine.ForwardPass, b []float32) engine.Loss {
	mine := slices.Repeat(b[:1], 1+p.Rank())
	e.rows = append(e.rows, torch.Values[float32](p.Gather(torch.From(mine))))
	if p.World() > 1 && e.refuses == p.Rank() {
		engine.GatherObject(p, struct{ unexported int }{})
	}
	e.objects = append(e.objects, engine.GatherObject(p, string(rune('a'+p.Rank()))))
	e.drawn = append(e.drawn, torch.Rand(1).Item())
	return e.numbered.Loss(p, b)
}

// exchange trains on three processes for two updates, and evaluates one sample.
func exchange(t *testing.T, refuses int) (tasks []*exchanging, errs []error) {
	t.Helper()
	testenv.RequireTorch(t)
	set := data.Slice[float32]{1, 2, 3, 4, 5, 6}
	for range 3 {
		tasks = append(tasks, &exchanging{numbered: newNumbered(), refuses: refuses})
	}
	errs = ranktest.Together(t, 3, nil, func(ctx context.Context, g *dist.Group) error {
		step, err := engine.New(tasks[g.Rank()], engine.Options{})
		if err != nil {
			return err
		}
		f, err := trainer.New(step, quiet(trainer.Options{Epochs: 1, BatchSize: 1, Group: g, Order: data.Sequential{},
			Save: trainer.Never, Seed: 5}))
		if err != nil {
			return err
		}
		if _, err = f.Fit(ctx, set, nil); err != nil {
			return err
		}
		_, err = f.Evaluate(ctx, set[:1])
		return err
	})
	return tasks, errs
}

func TestTheProcessesOfAPassExchangeValues(t *testing.T) {
	tasks, errs := exchange(t, -1)
	require.NoError(t, errors.Join(errs...))
	for rank, task := range tasks {
		require.GreaterOrEqual(t, len(task.rows), 2, "rank %d", rank)
		assert.Equal(t, [][]float32{{1, 2, 2, 3, 3, 3}, {4, 5, 5, 6, 6, 6}}, task.rows[:2], "rank %d", rank)
		assert.Equal(t, [][]string{{"a", "b", "c"}, {"a", "b", "c"}}, task.objects[:2], "rank %d", rank)
		for i := range task.objects[2:] { // an evaluation: of one process or none
			assert.Equal(t, []string{"a"}, task.objects[2+i], "rank %d", rank)
		}
	}
	assert.NotEqual(t, tasks[0].drawn[0], tasks[1].drawn[0])
	assert.NotEqual(t, tasks[0].drawn[0], tasks[2].drawn[0])
}

func TestAnObjectThatCannotBeSentEndsAllProcesses(t *testing.T) {
	_, errs := exchange(t, 1)
	for rank, err := range errs {
		require.ErrorContains(t, err, "engine: GatherObject: gob: type struct", "rank %d", rank)
	}
}
