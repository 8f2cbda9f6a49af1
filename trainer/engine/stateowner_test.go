package engine_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// counting weighs its losses by how many micro-batches there have been.
type counting struct {
	*numbered
	count   int
	windows []int
}

func (c *counting) State() ([]byte, error) { return []byte(strconv.Itoa(c.count)), nil }

func (c *counting) LoadState(state []byte) (put func(), err error) {
	count := 0
	if state != nil {
		if count, err = strconv.Atoi(string(state)); err != nil {
			return nil, errors.New("want a number")
		}
	}
	return func() { c.count = count }, nil
}

func (c *counting) Loss(p engine.ForwardPass, b []float32) engine.Loss {
	c.windows = append(c.windows, p.WindowLen)
	if p.WindowLen > 0 {
		c.count++
	}
	loss := c.numbered.Loss(p, b)
	loss.Value = loss.Value.MulScalar(c.count)
	return loss
}

// TestTheStateOfATaskIsResumed, and that of an earlier run is not.
func TestTheStateOfATaskIsResumed(t *testing.T) {
	testenv.RequireTorch(t)
	set := data.Slice[float32]{1, 2, 3, 4, 5, 6, 7}
	fit := func(task *counting, dir string, callbacks ...any) (weight float64, err error) {
		step, err := engine.New(task, engine.Options{})
		require.NoError(t, err)
		f, err := trainer.New(step, quiet(trainer.Options{OutputDir: dir, Epochs: 2, BatchSize: 1, Accumulate: 2,
			Save: trainer.Every(1, trainer.Update), ResumeFrom: trainer.Latest, Callbacks: callbacks}))
		require.NoError(t, err)
		_, err = f.Fit(t.Context(), set, nil)
		if err == nil {
			_, err = f.Evaluate(t.Context(), set[:1])
		}
		return task.layer.Weight.Item(), err
	}
	whole := &counting{numbered: newNumbered()}
	want, err := fit(whole, t.TempDir())
	require.NoError(t, err)
	assert.Equal(t, []int{2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 1, 0}, whole.windows, "micro-batches in the window")

	dir := t.TempDir()
	_, err = fit(&counting{numbered: newNumbered()}, dir, breaks{3})
	require.ErrorIs(t, err, errBroken)
	used := &counting{numbered: newNumbered(), count: 100}
	got, err := fit(used, dir)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	assert.Equal(t, 14, used.count)

	used.numbered = newNumbered()
	got, err = fit(used, t.TempDir())
	require.NoError(t, err)
	assert.Equal(t, want, got, "of a run that begins with a task that was used before")

	step, err := engine.New(used, engine.Options{})
	require.NoError(t, err)
	saved := t.TempDir()
	used.count = 7
	require.NoError(t, step.Save(saved, trainer.SaveOptions{}))
	require.NoError(t, step.Load(saved, trainer.LoadOptions{}))
	require.NoError(t, os.Remove(filepath.Join(saved, "task.safetensors")))
	require.ErrorContains(t, step.Load(saved, trainer.LoadOptions{}), "the state of *engine_test.counting is missing")

	sharded, err := engine.New(&counting{numbered: newNumbered()}, engine.Options{Sharding: shard.FullShard})
	require.NoError(t, err)
	for _, err := range inGroup(t, 1, func(g *dist.Group) error { return sharded.JoinGroup(context.Background(), g) }) {
		require.ErrorContains(t, err, "has a state of its own (engine.StateOwner)")
	}
}

// TestEachProcessHasItsStateAgain, which RandomState holds.
func TestEachProcessHasItsStateAgain(t *testing.T) {
	testenv.RequireTorch(t)
	task := &counting{numbered: newNumbered(), count: 3}
	step, err := engine.New(task, engine.Options{})
	require.NoError(t, err)
	state, err := step.RandomState()
	require.NoError(t, err)
	task.count = 9
	require.NoError(t, step.SetRandomState(state))
	assert.Equal(t, 3, task.count)
	broken := bytes.Replace(state, []byte(`"state":"Mw=="`), []byte(`"state":"eA=="`), 1)
	require.ErrorContains(t, step.SetRandomState(broken), "the state of a process: want a number")
	assert.Equal(t, 3, task.count)
}
