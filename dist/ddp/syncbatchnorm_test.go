package ddp_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// around compares two float64 tensors up to the order of summation.
func around(name string, got, want torch.Tensor) error {
	if off := got.Sub(want).Abs().Max().Item(); !(off < 1e-12) {
		return fmt.Errorf("%s is off by %v: %v, want %v", name, off, got, want)
	}
	return nil
}

// Batch normalisation over several processes equals that of one process with all their rows, in
// outputs, gradients and running statistics, also if the batch is not divided evenly.
func TestSyncBatchNormIsThatOfTheWholeBatch(t *testing.T) {
	testenv.RequireTorch(t)
	double := torch.TensorOptions{DType: torch.Float64}
	torch.ManualSeed(3)
	x, weights := double.Randn(7, 3, 2), double.Randn(7, 3, 2)
	x = x.MulScalar(2).AddScalar(100)
	pass := func(b *nn.BatchNorm1d, x, weights torch.Tensor) (y, grad torch.Tensor) {
		x = x.Clone().SetRequiresGrad(true)
		y = b.Forward(x)
		y.Mul(weights).Sum(0).Backward()
		return y, x.Grad()
	}
	layer := func() *nn.BatchNorm1d {
		b := nn.NewBatchNorm1d(3, &nn.BatchNormOptions{Factory: double})
		torch.NoGrad(func() { b.Weight.Copy_(double.Arange(1, 4, 1)) })
		return b
	}
	one := layer()
	y, grad := pass(one, x, weights)
	for world := 2; world <= 3; world++ {
		all(t, together(t, world, func(ctx context.Context, g *dist.Group) error {
			from, n := int64(2*g.Rank()), int64(2) // the last process has the remainder
			if g.Rank() == world-1 {
				n = 7 - from
			}
			b := layer()
			nn.ConvertSyncBatchNorm(b)
			m, err := ddp.New(ctx, g, b, ddp.Options{})
			if err != nil {
				return err
			}
			defer m.Close()
			gotY, gotGrad := pass(b, x.Narrow(0, from, n), weights.Narrow(0, from, n))
			err = ddp.AllReduce(ctx, g, dist.Sum, b.Weight.Grad(), b.Bias.Grad())
			return errors.Join(err, around("y", gotY, y.Narrow(0, from, n)),
				around("the gradient of x", gotGrad, grad.Narrow(0, from, n)),
				around("the gradient of the weight", b.Weight.Grad(), one.Weight.Grad()),
				around("the gradient of the bias", b.Bias.Grad(), one.Bias.Grad()),
				around("the running mean", b.RunningMean, one.RunningMean),
				around("the running variance", b.RunningVar, one.RunningVar),
				same("the number of batches", b.NumBatchesTracked, one.NumBatchesTracked))
		}))
	}
}

// Nothing is sent in evaluation, so a single process may evaluate; nor after the model was closed.
func TestSyncBatchNormAlone(t *testing.T) {
	for _, o := range []*nn.BatchNormOptions{nil, {NoRunningStats: true}} {
		all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
			b := nn.NewSyncBatchNorm(2, o)
			m, err := ddp.New(ctx, g, b, ddp.Options{})
			if err != nil || !g.Main() {
				return err
			}
			nn.SetTraining(b, false)
			b.Forward(torch.Ones(3, 2))
			m.Close()
			nn.SetTraining(b, true)
			b.Forward(torch.Ones(3, 2))
			return nil
		}))
	}
}

func TestCompressedGradientsHaveTheBitsOfPython(t *testing.T) {
	testenv.RequireTorch(t)
	file := golden.Load(t, "testdata/gloo.safetensors")
	for name, dtype := range map[string]torch.DType{"fp16": torch.Float16, "bf16": torch.BFloat16} {
		all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
			l := nn.NewLinear(50, 4, &nn.LinearOptions{NoBias: true})
			torch.NoGrad(func() { l.Weight.Fill_(0.5) })
			m, err := ddp.New(ctx, g, l, ddp.Options{Compress: dtype})
			if err != nil {
				return err
			}
			defer m.Close()
			for step := range 2 {
				torch.NewList(l.Weight).ZeroGrad(false)
				x := file.Tensor(fmt.Sprintf("%s.in.%d.%d", name, g.Rank(), step))
				if err := m.BeforeForward(ctx, true); err != nil {
					return err
				}
				loss := l.Forward(x).Mul(torch.Arange(4)).Sum(0)
				if err := m.Backward(ctx, loss.Backward, loss); err != nil {
					return err
				}
				want := fmt.Sprintf("%s.%d", name, step)
				if err := same(want, l.Weight.Grad(), file.Tensor(want)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	all(t, together(t, 1, func(ctx context.Context, g *dist.Group) error {
		_, err := ddp.New(ctx, g, nn.NewLinear(1, 1, nil), ddp.Options{Compress: torch.Int8})
		require.ErrorContains(t, err, "Compress is int8; want torch.Float16, torch.BFloat16 or nothing")
		return nil
	}))
}
