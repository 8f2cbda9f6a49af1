package trainer_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

var errFull = errors.New("the device has no memory left")

// narrow is a step that moves one weight towards the mean of its samples, on a device with room for
// only a few of them.
type narrow struct {
	trainer.BaseStep[int, []int]
	weight, gradient, loss float64
	micro, full            int
	room                   func(micro int) int // samples that fit; nil: all do
	inBackward             bool                // a batch that does not fit fails with part of its gradient added
	updateFails            bool
	items                  bool // losses are sums over the items of the window
}

func (n *narrow) About() trainer.About {
	return trainer.About{Saves: true, KnowsMemory: true, FiltersLoss: true}
}

func (n *narrow) Collate(samples []int) ([]int, error) { return samples, nil }

func (n *narrow) OutOfMemory(err error) bool { return errors.Is(err, errFull) }

func (n *narrow) Count(batch []int) (c trainer.Counts) {
	if n.items {
		c.Items = int64(len(batch))
	}
	c.Flops = float64(len(batch))
	return c
}

func (n *narrow) ZeroGrad() error {
	n.gradient = 0
	return nil
}

func (n *narrow) Train(_ context.Context, batch []int, w trainer.Window) error {
	n.micro++
	if n.room != nil && len(batch) > n.room(n.micro) {
		n.full++
		if n.inBackward {
			n.gradient += 1000
		}
		return errFull
	}
	divisor := w.Divisor * float64(len(batch))
	if n.items {
		divisor = float64(w.Items)
	}
	for _, v := range batch {
		d := n.weight - float64(v)
		n.loss += d * d / divisor
		n.gradient += 2 * d / divisor
	}
	return nil
}

func (n *narrow) Update(_ context.Context, rate float64) (bool, error) {
	if n.updateFails {
		return false, errFull
	}
	n.weight -= rate * n.gradient
	n.gradient = 0
	return true, nil
}

func (n *narrow) Report(context.Context) (trainer.Report, error) {
	r := trainer.Report{LossSum: n.loss, GradNorm: -1}
	n.loss = 0
	return r, nil
}

func (n *narrow) Eval(context.Context, []int) error { return nil }

func (n *narrow) Metrics(context.Context) (trainer.Metrics, error) {
	return trainer.Metrics{"loss": n.weight}, nil
}

func (n *narrow) Save(dir string, _ trainer.SaveOptions) error {
	b, err := json.Marshal(n.weight)
	return errors.Join(err, os.WriteFile(filepath.Join(dir, "weight.json"), b, 0o666))
}

func (n *narrow) Load(dir string, _ trainer.LoadOptions) error {
	b, err := os.ReadFile(filepath.Join(dir, "weight.json"))
	return errors.Join(err, json.Unmarshal(b, &n.weight))
}

// fitNarrow trains on 53 samples in batches of 8 and windows of three batches: the last batch of an
// epoch has 5 samples, and the last window has one batch.
func fitNarrow(t *testing.T, step *narrow, change func(*trainer.Options)) (*trainer.Result, error) {
	t.Helper()
	o := trainer.Options{Epochs: 3, BatchSize: 8, Accumulate: 3, LearningRate: 0.05, Schedule: lr.Constant{},
		Log: trainer.Every(2, trainer.Update), Progress: io.Discard, DivideOnOutOfMemory: true, Workers: 3}
	if change != nil {
		change(&o)
	}
	fit, err := trainer.New[int, []int](step, o)
	require.NoError(t, err)
	return fit.Fit(context.Background(), trainertest.Samples(53), nil)
}

func TestABatchThatDoesNotFitIsTrainedInParts(t *testing.T) {
	after := func(n, room int) func(int) int {
		return func(micro int) int {
			if micro < n {
				return 100
			}
			return room
		}
	}
	for _, c := range []struct {
		claim  string
		step   narrow
		change func(*trainer.Options)
		parts  []string
	}{
		{"from the beginning", narrow{room: after(0, 4)}, nil, []string{"2"}},
		{"twice at once", narrow{room: after(0, 3)}, nil, []string{"2", "4"}},
		{"down to single samples", narrow{room: after(0, 1)}, nil, []string{"2", "4", "8"}},
		{"in the middle of a window", narrow{room: after(9, 4)}, nil, []string{"2"}},
		{"in the backward pass", narrow{room: after(9, 4), inBackward: true}, nil, []string{"2"}},
		{"in the last batch of a window", narrow{room: after(6, 2), inBackward: true}, nil, []string{"2", "4"}},
		{"one time after another in a window", narrow{inBackward: true, room: func(micro int) int {
			return map[bool]int{true: 100, false: map[bool]int{true: 4, false: 2}[micro < 13]}[micro < 8]
		}}, nil, []string{"2", "4"}},
		{"losses over the items of the window", narrow{room: after(9, 3), items: true, inBackward: true}, nil,
			[]string{"2", "4"}},
		{"under Hugging Face's rules", narrow{room: after(5, 4), items: true}, func(o *trainer.Options) {
			o.Semantics = semantics.HuggingFace
		}, []string{"2"}},
		{"without the last batch", narrow{room: after(9, 4)}, func(o *trainer.Options) { o.DropLast = true },
			[]string{"2"}},
		{"in the last, short window", narrow{room: after(7, 4)}, nil, []string{"2"}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			wide := narrow{items: c.step.items}
			want, err := fitNarrow(t, &wide, c.change)
			require.NoError(t, err)
			got, err := fitNarrow(t, &c.step, c.change)
			require.NoError(t, err)
			assert.InDelta(t, wide.weight, c.step.weight, 1e-12*wide.weight, "the weight")
			assert.Equal(t, want.GlobalStep, got.GlobalStep)
			assert.Equal(t, want.Epoch, got.Epoch)
			require.Len(t, got.History, len(want.History))
			for i, row := range want.History {
				for _, name := range []string{"loss", "train_loss", "epoch", "step", "learning_rate", "total_flos"} {
					assert.InDelta(t, row[name], got.History[i][name], 1e-9, "%s of row %d", name, i)
				}
			}
			require.Len(t, got.Warnings, len(c.parts))
			for i, parts := range c.parts {
				assert.True(t, strings.HasSuffix(got.Warnings[i], "each is trained in "+parts+" parts"),
					got.Warnings[i])
			}
			assert.Equal(t, len(c.parts), c.step.full, "it is not tried again")
		})
	}
}

func TestPartsOfAStream(t *testing.T) {
	var wide narrow
	short := narrow{inBackward: true, room: func(micro int) int { return map[bool]int{true: 8, false: 3}[micro < 11] }}
	for _, step := range []*narrow{&wide, &short} {
		fit, err := trainer.New[int, []int](step, trainer.Options{MaxSteps: 9, BatchSize: 8, Accumulate: 3,
			LearningRate: 0.05, Progress: io.Discard, DivideOnOutOfMemory: true})
		require.NoError(t, err)
		_, err = fit.FitStream(context.Background(), data.StreamOf(trainertest.Samples(53), data.Sequential{}), nil)
		require.NoError(t, err)
	}
	assert.Equal(t, 2, short.full)
	assert.InDelta(t, wide.weight, short.weight, 1e-12*wide.weight)
}

func TestAResumedRunKeepsTheParts(t *testing.T) {
	room := func(micro int) int { return map[bool]int{true: 8, false: 4}[micro < 5] }
	saving := func(dir string, steps int) func(*trainer.Options) {
		return func(o *trainer.Options) {
			o.OutputDir, o.Save, o.ResumeFrom = dir, trainer.Every(1, trainer.Update), trainer.Latest
			o.Epochs, o.MaxSteps = 0, steps
		}
	}
	alone := narrow{room: room}
	_, err := fitNarrow(t, &alone, saving(t.TempDir(), 9))
	require.NoError(t, err)
	for steps := 2; steps < 9; steps++ { // the second update is the first that is made in parts
		dir := t.TempDir()
		_, err := fitNarrow(t, &narrow{room: room}, saving(dir, steps))
		require.NoError(t, err)
		resumed := narrow{room: func(int) int { return 4 }}
		_, err = fitNarrow(t, &resumed, saving(dir, 9))
		require.NoError(t, err)
		assert.Zero(t, resumed.full, "whole batches are not tried again")
		assert.Equal(t, alone.weight, resumed.weight, "resumed after update %d", steps) //nolint:testifylint // the bits
		var whole narrow
		r, err := fitNarrow(t, &whole, func(o *trainer.Options) {
			saving(dir, 9)(o)
			o.DivideOnOutOfMemory = false
		})
		require.NoError(t, err)
		assert.Contains(t, strings.Join(r.Warnings, "\n"), "trained each batch in 2 parts")
	}
}

func TestWhatCannotBeDivided(t *testing.T) {
	_, err := fitNarrow(t, &narrow{room: func(int) int { return 0 }}, nil)
	assert.ErrorIs(t, err, errFull)
	assert.ErrorContains(t, err, "not even one sample fits into memory")
	_, err = fitNarrow(t, &narrow{updateFails: true}, nil)
	assert.ErrorIs(t, err, errFull)
	assert.ErrorContains(t, err, "update after update 0")
	for claim, change := range map[string]func(*trainer.Options){
		"AutoFindBatchSize":  func(o *trainer.Options) { o.AutoFindBatchSize = true },
		"Semantics pymarlin": func(o *trainer.Options) { o.Semantics = semantics.PyMarlin },
	} {
		o := trainer.Options{DivideOnOutOfMemory: true, LearningRate: 1, Progress: io.Discard}
		change(&o)
		_, err := trainer.New[int, []int](new(narrow), o)
		var option *trainer.OptionError
		require.ErrorAs(t, err, &option, claim)
		assert.Contains(t, err.Error(), claim)
	}
}

// A program that joins a group is a group of one where it is started by itself.
func TestAGroupOfOneDivides(t *testing.T) {
	g, err := dist.Init(t.Context(), dist.Options{World: 1})
	require.NoError(t, err)
	defer g.Close() //nolint:errcheck // it is alone
	_, err = trainer.New[int, []int](new(narrow), trainer.Options{DivideOnOutOfMemory: true, Group: g, LearningRate: 1,
		Progress: io.Discard})
	require.NoError(t, err)
}
