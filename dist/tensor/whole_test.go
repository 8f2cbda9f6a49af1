package tensor_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/dist/tensor"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// The file of a summoned model equals that of the undivided model byte for byte, and weights loaded
// into a summoned model are divided again.
func TestFilesAreThoseOfTheUndividedModel(t *testing.T) {
	folder := t.TempDir()
	path, other := filepath.Join(folder, "undivided.safetensors"), filepath.Join(folder, "other.safetensors")
	undivided, err := alone(func(context.Context, *dist.Group) (*net, error) {
		m := newNet(12)
		return m, nn.Save(path, m, nil)
	})
	require.NoError(t, err)
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	var output, otherOutput torch.Tensor
	torch.NoGrad(func() {
		output = undivided.forward(input(0).ToDType(torch.Float32))
		for _, p := range nn.Params(undivided) {
			p.Tensor.MulScalar_(0.5)
		}
		otherOutput = undivided.forward(input(0).ToDType(torch.Float32))
	})
	require.NoError(t, nn.Save(other, undivided, nil))
	for _, world := range []int{1, 2, 3} {
		all(t, together(t, world, func(ctx context.Context, g *dist.Group) error {
			m := newNet(12)
			p, err := tensor.Parallelize(ctx, g, m, plan)
			if err != nil {
				return err
			}
			if n := m.Blocks[0].Down.Weight.Numel(); n != int64(72/world) {
				return fmt.Errorf("%d of 72 weights are on this process", n)
			}
			written := filepath.Join(folder, fmt.Sprint(world, "-", g.Rank(), ".safetensors"))
			if err := p.Summon(ctx); err != nil {
				return err
			}
			if err := p.Summon(ctx); err != nil {
				return fmt.Errorf("a second Summon: %w", err)
			}
			if err := nn.Save(written, m, nil); err != nil {
				return err
			}
			got, err := os.ReadFile(written)
			if err != nil {
				return err
			}
			if !bytes.Equal(got, want) {
				return fmt.Errorf("the file differs from the one of the undivided model")
			}
			torch.NoGrad(func() {
				if y := m.forward(input(0).ToDType(torch.Float32)); !y.Equal(output) {
					err = fmt.Errorf("summoned it computes %v, undivided %v", y, output)
				}
			})
			if err != nil {
				return err
			}
			if _, err := nn.Load(other, m, nn.LoadOptions{}); err != nil {
				return err
			}
			for range 2 {
				if err := p.Release(); err != nil {
					return err
				}
			}
			torch.NoGrad(func() {
				if y := m.forward(input(0).ToDType(torch.Float32)); !y.AllClose(otherOutput, 1e-5, 1e-6, false) {
					err = fmt.Errorf("with another file it computes %v, undivided %v", y, otherOutput)
				}
			})
			return err
		}))
	}
}

// In a group of one process the model is undivided, with the same bits.
func TestAGroupOfOneIsTheIdentity(t *testing.T) {
	want, err := alone(func(context.Context, *dist.Group) (torch.Tensor, error) {
		return newNet(7).forward(input(0).ToDType(torch.Float32)), nil
	})
	require.NoError(t, err)
	for _, world := range []int{0, 1} {
		compute := func(ctx context.Context, g *dist.Group) (torch.Tensor, error) {
			m := newNet(7)
			before := nn.Params(m)
			_, err := tensor.Parallelize(ctx, g, m, plan)
			assert.Equal(t, before, nn.Params(m))
			assert.Empty(t, nn.LinearParts(m))
			return m.forward(input(0).ToDType(torch.Float32)), err
		}
		if world == 0 {
			got, err := alone(compute)
			require.NoError(t, err)
			require.True(t, got.Equal(want))
			continue
		}
		all(t, together(t, world, func(ctx context.Context, g *dist.Group) error {
			got, err := compute(ctx, g)
			if err == nil && !got.Equal(want) {
				err = fmt.Errorf("it computes %v, undivided %v", got, want)
			}
			return err
		}))
	}
}

// With dropout between and behind the layers, the processes stay in step if they draw the same
// random numbers: they drop the same places of their parts.
func TestDropoutKeepsTheProcessesTogether(t *testing.T) {
	outputs := make([][]float64, 2)
	all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
		m := newNet(8)
		m.Blocks[0].Dropout.P, m.Blocks[1].Dropout.P = 0.5, 0.5
		if _, err := tensor.Parallelize(ctx, g, m, plan); err != nil {
			return err
		}
		y := nn.NewDropout(0.5).Forward(m.forward(input(0).ToDType(torch.Float32)))
		outputs[g.Rank()] = torch.Values[float64](y.Detach().ToDType(torch.Float64))
		return nil
	}))
	assert.Equal(t, outputs[0], outputs[1])
	assert.Contains(t, outputs[0], 0.0)
}

// Under autocast, the output of a divided pair has the same dtype as that of an undivided one.
func TestAutocast(t *testing.T) {
	all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
		m := newNet(8)
		if _, err := tensor.Parallelize(ctx, g, m, plan); err != nil {
			return err
		}
		var dtype torch.DType
		torch.Autocast(torch.CPU, torch.BFloat16, true, true, func() {
			y := m.Blocks[0].Down.Forward(m.Blocks[0].Up.Forward(torch.Ones(2, 6)))
			dtype = y.DType()
			y.Sum(torch.Float32).Backward()
		})
		if g := m.Blocks[0].Down.Bias.Grad(); dtype != torch.BFloat16 || g.DType() != torch.Float32 {
			return fmt.Errorf("under autocast the output is %s, and the gradient of the bias %s", dtype, g.DType())
		}
		return nil
	}))
}

// Two replicas of two parts, each with half of the batch, train like one process with the whole
// batch.
func TestReplicasOfDividedModels(t *testing.T) {
	train := func(m *net, x torch.Tensor, backward func(loss torch.Tensor) error,
		clip func() (torch.Tensor, error)) (norm float64, err error) {
		for range 3 {
			loss := m.forward(x).SubScalar(1).Square().Mean(torch.DefaultDType)
			if err := backward(loss); err != nil {
				return 0, err
			}
			n, err := clip()
			if err != nil {
				return 0, err
			}
			norm = n.Item()
			torch.NoGrad(func() {
				for _, p := range nn.Params(m) {
					p.Tensor.Sub_(p.Tensor.Grad())
					p.Tensor.SetGrad(torch.Tensor{})
				}
			})
		}
		return norm, nil
	}
	build := func() *net {
		m := newNet(12)
		nn.To(m, torch.TensorOptions{DType: torch.Float64})
		return m
	}
	want, err := alone(func(ctx context.Context, g *dist.Group) (result, error) {
		m := build()
		p, err := tensor.Parallelize(ctx, g, m, plan)
		if err != nil {
			return nil, err
		}
		norm, err := train(m, input(0), func(loss torch.Tensor) error { return torch.Try(loss.Backward) },
			func() (torch.Tensor, error) { return p.ClipGradNorm(ctx, 0.1) })
		got := result{"norm": {norm}}
		got.add("", nn.Params(m))
		return got, err
	})
	require.NoError(t, err)
	all(t, together(t, 4, func(ctx context.Context, g *dist.Group) error {
		mesh, err := dist.NewMesh(ctx, g, 2)
		if err != nil {
			return err
		}
		defer mesh.Close() //nolint:errcheck // it is over
		m := build()
		p, err := tensor.Parallelize(ctx, mesh.Shard, m, plan)
		if err != nil {
			return err
		}
		parallel, err := ddp.New(ctx, mesh.Replicate, m, ddp.Options{})
		if err != nil {
			return err
		}
		defer parallel.Close()
		norm, err := train(m, input(0).Narrow(0, int64(2*mesh.Replicate.Rank()), 2), func(loss torch.Tensor) error {
			if err := parallel.BeforeForward(ctx, true); err != nil {
				return err
			}
			return parallel.Backward(ctx, loss.Backward, loss)
		}, func() (torch.Tensor, error) { return p.ClipGradNorm(ctx, 0.1) })
		if err != nil {
			return err
		}
		if err := p.Summon(ctx); err != nil {
			return err
		}
		got := result{"norm": {norm}}
		got.add("", nn.Params(m))
		return compare(got, want, 1e-12)
	}))
}
