package engine_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// numbered is a task that logs the mean of its samples, which are numbers, and the square of the
// mean.
type numbered struct {
	layer    *nn.Linear
	memory   int // number of samples that fit into memory; 0: all
	wrong    bool
	nameless bool
	no       float32 // a batch that begins with it has no square
}

func newNumbered() *numbered {
	torch.ManualSeed(1)
	return &numbered{layer: nn.NewLinear(1, 1, nil)}
}

func (n *numbered) Model() any { return n.layer }
func (n *numbered) Collate(samples []float32) ([]float32, error) {
	return append([]float32(nil), samples...), nil
}
func (n *numbered) TrainingLogs() []string {
	if n.nameless {
		return nil
	}
	return []string{"mean", "square"}
}
func (n *numbered) Loss(p engine.ForwardPass, b []float32) engine.Loss {
	if n.memory > 0 && len(b) > n.memory {
		panic(torch.Errorf("Loss", torch.ErrOutOfMemory, "no memory"))
	}
	x := engine.Input(p, b)
	mean := x.Mean(torch.DefaultDType)
	loss := engine.Mean(n.layer.Forward(x.View(-1, 1)).Square().Mean(torch.DefaultDType), len(b))
	square := mean.Square()
	if b[0] == n.no {
		square = square.FullLike(math.NaN())
	}
	if loss.Logged = torch.Stack([]torch.Tensor{mean, square}, 0); n.wrong {
		loss.Logged = mean
	}
	return loss
}

// atForward is a hook that makes the step stop between forward and backward.
type atForward struct{}

func (atForward) AfterForward(*trainer.Run) error { return nil }

var errBroken = errors.New("broken")

// breaks is a hook that ends a run.
type breaks struct{ after int }

func (b breaks) StepEnd(r *trainer.Run) error {
	if r.GlobalStep == b.after {
		return errBroken
	}
	return nil
}

// TestNumbersOfTheTrainingAreLogged: what is logged is the mean over the micro-batches since the
// last row, however these are computed.
func TestNumbersOfTheTrainingAreLogged(t *testing.T) {
	testenv.RequireTorch(t)
	set := data.Slice[float32]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	options := func() trainer.Options {
		return quiet(trainer.Options{Epochs: 1, BatchSize: 2, Accumulate: 2, Order: data.Sequential{}, Save: trainer.Never,
			Log: trainer.Every(2, trainer.Update)})
	}
	rows := func(task *numbered, o trainer.Options) (rows [][2]float64, err error) {
		step, err := engine.New(task, engine.Options{})
		if err != nil {
			return nil, err
		}
		fit, err := trainer.New(step, o)
		if err != nil {
			return nil, err
		}
		r, err := fit.Fit(t.Context(), set, nil)
		if err != nil {
			return nil, err
		}
		for _, row := range r.History {
			if _, ok := row["loss"]; ok {
				rows = append(rows, [2]float64{row["mean"], row["square"]})
			}
		}
		return rows, nil
	}
	want := [][2]float64{{4.5, (1.5*1.5 + 3.5*3.5 + 5.5*5.5 + 7.5*7.5) / 4},
		{12.5, (9.5*9.5 + 11.5*11.5 + 13.5*13.5 + 15.5*15.5) / 4}}

	got, err := rows(newNumbered(), options())
	require.NoError(t, err)
	assert.Equal(t, want, got)

	o := options()
	o.Callbacks = []any{atForward{}}
	got, err = rows(newNumbered(), o)
	require.NoError(t, err)
	assert.Equal(t, want, got, "with a hook between forward and backward")

	o = options()
	o.DivideOnOutOfMemory = true
	small := newNumbered()
	small.memory = 1
	got, err = rows(small, o)
	require.NoError(t, err)
	assert.Equal(t, [2]float64{4.5, (1 + 4 + 9 + 16 + 25 + 36 + 49 + 64) / 8.}, got[0], "in parts of one sample")

	o = options()
	o.OutputDir, o.Save, o.ResumeFrom = t.TempDir(), trainer.Every(1, trainer.Update), trainer.Latest
	o.Callbacks = []any{breaks{3}}
	_, err = rows(newNumbered(), o)
	require.ErrorIs(t, err, errBroken)
	o.Callbacks = nil
	got, err = rows(newNumbered(), o)
	require.NoError(t, err)
	assert.Equal(t, want, got, "of a run that continues between two rows")

	for rank, err := range inGroup(t, 2, func(g *dist.Group) error {
		o := options()
		o.Group, o.Accumulate = g, 1
		got, err := rows(newNumbered(), o)
		if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
			err = fmt.Errorf("%v, want %v", got, want)
		}
		return err
	}) {
		require.NoError(t, err, "rank %d", rank)
	}

	some := newNumbered()
	some.no = 3
	got, err = rows(some, options())
	require.NoError(t, err)
	assert.Equal(t, [2]float64{4.5, (1.5*1.5 + 5.5*5.5 + 7.5*7.5) / 3}, got[0], "where a micro-batch has no such number")

	wrong := newNumbered()
	wrong.wrong = true
	_, err = rows(wrong, options())
	require.ErrorContains(t, err, `Loss.Logged of shape []; want one number for each of its 2 TrainingLogs ["mean" "square"]`)

	nameless := newNumbered()
	nameless.nameless = true
	_, err = rows(nameless, options())
	require.ErrorContains(t, err, "has no names for its numbers: want a method TrainingLogs")
}
