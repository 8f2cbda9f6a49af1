package engine_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// spoil is a hook that makes a weight so large before the fourth update that the layer overflows.
type spoil struct{ weight torch.Tensor }

func (s spoil) StepEnd(r *trainer.Run) error {
	if r.GlobalStep == 3 {
		torch.NoGrad(func() { s.weight.Fill_(3e38) })
	}
	return nil
}

// chosenLoss is a task whose loss the test chooses.
func chosenLoss(model *net, loss func(y torch.Tensor) torch.Tensor) engine.Task[data.Example, engine.Examples] {
	collate := engine.Classify(model).Collate
	return engine.TaskFunc(any(model), collate, func(p engine.ForwardPass, b engine.Examples) engine.Loss {
		x := engine.Input(p, b.Features, int64(len(b.Classes)), 2)
		return engine.Mean(loss(model.Forward(x)), len(b.Classes))
	})
}

func TestANonFiniteErrorSaysWhereItComesFrom(t *testing.T) {
	testenv.RequireTorch(t)
	const sick = 37
	nan := ring(64)
	nan[sick].Features = []float32{float32(math.NaN()), 0}
	usual := func(y torch.Tensor) torch.Tensor { return y.Square().Mean(torch.DefaultDType) }
	for _, c := range []struct {
		claim string
		set   data.Slice[data.Example]
		loss  func(y torch.Tensor) torch.Tensor
		spoil bool
		hook  any
		name  string
		want  trainer.NonFiniteOrigin
		text  string
	}{
		{claim: "a nan in a sample", set: nan, loss: usual, name: "loss",
			want: trainer.NonFiniteOrigin{Module: "hidden", Input: true, Loss: true},
			text: "the first layer whose output is not finite is hidden, and its input is not finite either"},
		{claim: "a layer that overflows", set: ring(64), loss: usual, spoil: true, name: "loss",
			want: trainer.NonFiniteOrigin{Module: "out", Loss: true},
			text: "the first layer whose output is not finite is out"},
		{claim: "a loss of finite outputs", set: ring(64), name: "loss", want: trainer.NonFiniteOrigin{Loss: true},
			loss: func(y torch.Tensor) torch.Tensor { return y.Square().Mean(torch.DefaultDType).MulScalar(0).Log() },
			text: "the outputs of all layers with parameters are finite, but the loss is not"},
		{claim: "a gradient of a finite loss", set: ring(64), name: "grad_norm",
			want: trainer.NonFiniteOrigin{Gradients: []string{"hidden.weight", "hidden.bias", "norm.weight",
				"norm.bias",
				"out.weight", "out.bias"}},
			loss: func(y torch.Tensor) torch.Tensor { return y.MulScalar(0).Sqrt().Sum(torch.DefaultDType) },
			text: "the gradients of 6 parameters are not; the one nearest to the loss is out.bias"},
		{claim: "the same where forward and backward are apart", set: nan, loss: usual, hook: new(afterForward),
			name: "loss", want: trainer.NonFiniteOrigin{Module: "hidden", Input: true, Loss: true}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			model := newNet()
			s, err := engine.New(chosenLoss(model, c.loss), engine.Options{})
			require.NoError(t, err)
			dir := t.TempDir()
			o := quiet(trainer.Options{Epochs: 1, BatchSize: 4, Accumulate: 2, Workers: 2, OutputDir: dir,
				Save: trainer.Every(1, trainer.Update)})
			if c.spoil {
				o.Callbacks = append(o.Callbacks, spoil{model.Out.Weight})
				o.Save = trainer.Every(3, trainer.Update)
			}
			if c.hook != nil {
				o.Callbacks = append(o.Callbacks, c.hook)
			}
			fit, err := trainer.New(s, o)
			require.NoError(t, err)
			_, err = fit.Fit(context.Background(), c.set, nil)
			var bad *trainer.NonFiniteError
			require.ErrorAs(t, err, &bad)
			assert.Equal(t, c.name, bad.Name)
			assert.Equal(t, c.want, bad.Origin)
			assert.Contains(t, bad.Error(), c.text)
			assert.Empty(t, bad.NoOrigin)
			loader, err := data.NewLoader(c.set, s.Collate, data.LoaderOptions{BatchSize: 4,
				Order: data.Shuffled{Seed: 42}})
			require.NoError(t, err)
			batch := 0
			if &c.set[0] == &nan[0] {
				for !slices.Contains(loader.Indices(0, batch), sick) {
					batch++
				}
			} else if c.spoil {
				batch = 6
			}
			assert.Equal(t, loader.Indices(0, batch), bad.Samples)
			assert.Equal(t, batch/2, bad.GlobalStep, "it stops before the update")
			for _, p := range nn.Params(s.Model()) {
				assert.NotZero(t, p.Tensor.IsFinite().All().Item(), "%s is still good", p.Name)
			}
			if bad.GlobalStep > 0 {
				assert.Equal(t, filepath.Join(dir, fmt.Sprintf("checkpoint-%d", bad.GlobalStep)), bad.Checkpoint)
			}
		})
	}
}

// afterForward is a hook that separates forward and backward.
type afterForward struct{}

func (*afterForward) AfterForward(*trainer.Run) error { return nil }

func TestANonFiniteErrorOfAStreamHasPositions(t *testing.T) {
	testenv.RequireTorch(t)
	set := ring(64)
	set[21].Features = []float32{float32(math.Inf(1)), 0}
	s, err := engine.New(engine.Classify(newNet()), engine.Options{})
	require.NoError(t, err)
	fit, err := trainer.New(s, quiet(trainer.Options{MaxSteps: 20, BatchSize: 4}))
	require.NoError(t, err)
	_, err = fit.FitStream(context.Background(), data.StreamOf(data.Dataset[data.Example](set), data.Sequential{}), nil)
	var bad *trainer.NonFiniteError
	require.ErrorAs(t, err, &bad)
	assert.Equal(t, []int{20, 21, 22, 23}, bad.Samples)
	assert.Equal(t, "hidden", bad.Origin.Module)
}

// The search does not change the running statistics and the random numbers.
func TestFindNonFiniteHasNoEffects(t *testing.T) {
	s := newStep(t, engine.Options{})
	batch, err := s.Collate(ring(8))
	require.NoError(t, err)
	before := fingerprint(s)
	origin, err := s.FindNonFinite(context.Background(), batch, trainer.Window{Len: 1, Divisor: 1})
	require.NoError(t, err)
	assert.Equal(t, trainer.NonFiniteOrigin{}, origin)
	require.NoError(t, s.ZeroGrad())
	assert.Equal(t, before, fingerprint(s))
	assert.NotEmpty(t, nn.Params(s.Model()))
}
