package ddp_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// together runs f as each rank, in goroutines of this process.
func together(t *testing.T, world int, f func(ctx context.Context, g *dist.Group) error) []error {
	t.Helper()
	testenv.RequireTorch(t)
	return ranktest.Together(t, world, nil, func(ctx context.Context, g *dist.Group) (err error) {
		if failed := torch.Try(func() { err = f(ctx, g) }); failed != nil {
			err = failed
		}
		return err
	})
}

func all(t *testing.T, errs []error) {
	t.Helper()
	for rank, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

func same(name string, got, want torch.Tensor) error {
	if got.DType() != want.DType() || fmt.Sprint(got.Shape()) != fmt.Sprint(want.Shape()) ||
		string(got.Bytes()) != string(want.Bytes()) {
		return fmt.Errorf("%s is %v, want %v", name, got, want)
	}
	return nil
}

func TestReductionsHaveTheBitsOfGloo(t *testing.T) {
	testenv.RequireTorch(t)
	file := golden.Load(t, "testdata/gloo.safetensors")
	all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
		for _, dtype := range []string{"float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8"} {
			for _, c := range []struct {
				name string
				op   dist.Op
			}{{"sum", dist.Sum}, {"max", dist.Max}, {"min", dist.Min}} {
				x := file.Tensor(fmt.Sprintf("%s.in.%d", dtype, g.Rank())).Clone()
				if err := ddp.AllReduce(ctx, g, c.op, x); err != nil {
					return err
				}
				if err := same(dtype+"."+c.name, x, file.Tensor(dtype+"."+c.name)); err != nil {
					return err
				}
			}
		}
		return nil
	}))
}

func TestTensorsOfSeveralTypesTravelTogether(t *testing.T) {
	all(t, together(t, 3, func(ctx context.Context, g *dist.Group) error {
		r := float32(g.Rank())
		a, b := torch.From([]float32{r, r + 1}, 2, 1), torch.From([]int64{int64(g.Rank())})
		empty := torch.Zeros(0, 4)
		if err := ddp.AllReduce(ctx, g, dist.Sum, a, b, empty); err != nil {
			return err
		}
		err := errors.Join(same("a", a, torch.From([]float32{3, 6}, 2, 1)), same("b", b, torch.From([]int64{3})))
		c, flag := torch.From([]float32{r}), torch.From([]bool{g.Rank() == 1})
		if e := ddp.Broadcast(ctx, g, 1, c, flag); e != nil {
			return e
		}
		return errors.Join(err, same("c", c, torch.From([]float32{1})), same("flag", flag, torch.From([]bool{true})))
	}))
}

func TestGatheredTensorsMayDifferInTheirFirstDimensionOnly(t *testing.T) {
	all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
		got, err := ddp.AllGather(ctx, g, torch.Ones(int64(g.Rank()), 2))
		if err != nil {
			return err
		}
		if fmt.Sprint(got[0].Shape(), got[1].Shape()) != "[0 2] [1 2]" {
			return fmt.Errorf("shapes %v and %v", got[0].Shape(), got[1].Shape())
		}
		if _, err := ddp.AllGather(ctx, g, torch.Ones(1, int64(g.Rank()+1))); err == nil ||
			!strings.Contains(err.Error(), "first dimension") {
			return fmt.Errorf("another width: %w", err)
		}
		return g.Barrier(ctx)
	}))
}

// branches has a layer that only some processes use, one that no process uses, and a frozen one.
type branches struct {
	nn.Mode

	A      *nn.Linear      `module:"a"`
	B      *nn.Linear      `module:"b"`
	C      *nn.Linear      `module:"c"`
	Frozen *nn.Linear      `module:"frozen"`
	Norm   *nn.BatchNorm1d `module:"norm"`
}

func newBranches() *branches {
	m := &branches{A: nn.NewLinear(2, 2, nil), B: nn.NewLinear(2, 2, nil), C: nn.NewLinear(2, 2, nil),
		Frozen: nn.NewLinear(2, 2, nil), Norm: nn.NewBatchNorm1d(2, nil)}
	for _, p := range nn.Params(m.Frozen) {
		p.Tensor.SetRequiresGrad(false)
	}
	return m
}

func TestGradientsAreAveragedAndUnusedParametersCountAsZeros(t *testing.T) {
	all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
		m := newBranches() // each process has different weights: all draw from one generator in turn
		p, err := ddp.New(ctx, g, m, ddp.Options{FindUnusedParameters: true})
		if err != nil {
			return err
		}
		first, err := ddp.AllGather(ctx, g, m.A.Weight.Detach())
		if err != nil {
			return err
		}
		if err := same("the weight after New", first[1], first[0]); err != nil {
			return err
		}
		r := float32(g.Rank() + 1)
		// The gradients are (r, 2r; 3r, 4r), and (1, 2) on rank 1 only.
		factor := torch.From([]float32{r, 2 * r, 3 * r, 4 * r}, 2, 2)
		loss := m.A.Weight.Mul(factor).Sum(torch.DefaultDType)
		if g.Rank() == 1 {
			loss = loss.Add(m.B.Bias.Mul(torch.From([]float32{1, 2})).Sum(torch.DefaultDType))
		}
		if err := p.BeforeForward(ctx, true); err != nil {
			return err
		}
		if err := p.Backward(ctx, loss.Backward, loss); err != nil {
			return err
		}
		if m.C.Weight.Grad().Defined() || m.Frozen.Weight.Grad().Defined() {
			return errors.New("a parameter that nobody uses has a gradient")
		}
		return errors.Join(same("a", m.A.Weight.Grad(), torch.From([]float32{1.5, 3, 4.5, 6}, 2, 2)),
			same("b", m.B.Bias.Grad(), torch.From([]float32{0.5, 1})))
	}))
}

func TestBuffersAreBroadcastAsDistributedDataParallelDoes(t *testing.T) {
	all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
		m := newBranches()
		p, err := ddp.New(ctx, g, m, ddp.Options{})
		if err != nil {
			return err
		}
		own, err := ddp.New(ctx, g, newBranches(), ddp.Options{KeepBuffers: true})
		if err != nil {
			return err
		}
		for i, c := range []struct{ sync, broadcast bool }{{false, true}, {true, false}, {true, true}, {false, true},
			{false, false}} {
			torch.NoGrad(func() { m.Norm.RunningMean.Fill_(10 + g.Rank()) })
			if err := errors.Join(p.BeforeForward(ctx, c.sync), own.BeforeForward(ctx, c.sync)); err != nil {
				return err
			}
			want := 10 + float64(g.Rank())
			if c.broadcast {
				want = 10
			}
			if got := m.Norm.RunningMean.Select(0, 0).Item(); got != want {
				return fmt.Errorf("pass %d: the buffer is %v, want %v", i, got, want)
			}
		}
		return nil
	}))
}

func TestDifferentModelsAreRefusedOnAll(t *testing.T) {
	for rank, err := range together(t, 2, func(ctx context.Context, g *dist.Group) error {
		_, err := ddp.New(ctx, g, nn.NewLinear(2, int64(2+g.Rank()), nil), ddp.Options{})
		return err
	}) {
		if err == nil || !strings.Contains(err.Error(), "the models differ: rank 1 has") ||
			!strings.Contains(err.Error(), "weight") {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

func TestGatheredListsMayDifferInEverything(t *testing.T) {
	all(t, together(t, 3, func(ctx context.Context, g *dist.Group) error {
		var mine []torch.Tensor
		for i := range g.Rank() { // nothing; a number; a number and an empty boolean matrix
			mine = append(mine, []torch.Tensor{torch.Full(2.5), torch.TensorOptions{DType: torch.Bool}.Zeros(0, 3)}[i])
		}
		notes, lists, err := ddp.AllGatherLists(ctx, g, fmt.Append(nil, "rank\n", g.Rank()), mine, torch.CPU)
		if err != nil {
			return err
		}
		for rank, list := range lists {
			if string(notes[rank]) != fmt.Sprint("rank\n", rank) || len(list) != rank {
				return fmt.Errorf("rank %d has sent %q and %d tensors", rank, notes[rank], len(list))
			}
			for i, want := range []torch.Tensor{torch.Full(2.5), torch.TensorOptions{DType: torch.Bool}.Zeros(0,
				3)}[:rank] {
				if err := same(fmt.Sprintf("tensor %d of rank %d", i, rank), list[i], want); err != nil {
					return err
				}
			}
		}
		return nil
	}))
}

// pass is one training step of a linear layer on two processes.
func pass(ctx context.Context, m *ddp.Model, layer *nn.Linear, x float32) error {
	if err := m.BeforeForward(ctx, true); err != nil {
		return err
	}
	loss := layer.Forward(torch.From([]float32{x}, 1, 1)).Sum(torch.DefaultDType)
	return m.Backward(ctx, loss.Backward, loss)
}

func TestCallsThatDifferAreRefusedOnAll(t *testing.T) {
	for rank, err := range together(t, 2, func(ctx context.Context, g *dist.Group) error {
		return ddp.AllReduce(ctx, g, dist.Sum, torch.Ones(int64(3+g.Rank()))) // gloo alone would accept this
	}) {
		require.ErrorIs(t, err, dist.ErrMismatch, "rank %d", rank)
		assert.ErrorContains(t, err, "AllReduce(sum of float32[3])")
		assert.ErrorContains(t, err, "AllReduce(sum of float32[4])")
	}
}

func TestABackwardPassLearnsWhoIsGone(t *testing.T) {
	ddp.SetAfterLeaving(t, 50*time.Millisecond)
	errs := together(t, 3, func(ctx context.Context, g *dist.Group) error {
		layer := nn.NewLinear(1, 1, nil)
		m, err := ddp.New(ctx, g, layer, ddp.Options{})
		if err != nil {
			return err
		}
		if err := pass(ctx, m, layer, 1); err != nil {
			return err
		}
		if g.Rank() == 2 {
			return nil // together then closes the group
		}
		return pass(ctx, m, layer, 2)
	})
	require.NoError(t, errs[2])
	for rank, err := range errs[:2] {
		require.Error(t, err, "rank %d", rank)
		assert.ErrorContains(t, err, "rank 2: it has closed its group", "rank %d", rank)
	}
}

func TestACancelledBackwardPassEndsOnAll(t *testing.T) {
	cause := errors.New("enough")
	errs := together(t, 2, func(ctx context.Context, g *dist.Group) error {
		layer := nn.NewLinear(1, 1, nil)
		m, err := ddp.New(ctx, g, layer, ddp.Options{})
		if err != nil {
			return err
		}
		if g.Rank() == 1 { // rank 1 never calls it
			<-g.Done()
			return g.Err()
		}
		ctx, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
		return pass(ctx, m, layer, 1)
	})
	require.ErrorIs(t, errs[0], cause)
	assert.ErrorContains(t, errs[1], "enough")
	assert.ErrorContains(t, errs[1], "reported by rank 0")
}

func TestUnusedParametersAreNamedWhereTheyAreNotAllowed(t *testing.T) {
	for rank, err := range together(t, 2, func(ctx context.Context, g *dist.Group) error {
		m := newBranches()
		p, err := ddp.New(ctx, g, m, ddp.Options{})
		if err != nil {
			return err
		}
		for range 2 {
			if err := p.BeforeForward(ctx, true); err != nil {
				return err
			}
			loss := m.A.Forward(torch.Ones(1, 2)).Add(m.B.Forward(torch.Ones(1, 2))).Sum(torch.DefaultDType)
			if err := p.Backward(ctx, loss.Backward, loss); err != nil {
				return err
			}
		}
		return nil
	}) {
		require.Error(t, err, "rank %d", rank)
		assert.ErrorContains(t, err, "c.weight, c.bias, norm.weight, norm.bias had no part in the loss")
		assert.ErrorContains(t, err, "FindUnusedParameters")
	}
}

// PyTorch's reducer fails in such a pass or, where it goes on, averages later gradients wrongly.
func TestAStaticGraphRefusesAPassThatIsNotAveraged(t *testing.T) {
	for rank, err := range together(t, 2, func(ctx context.Context, g *dist.Group) error {
		m, err := ddp.New(ctx, g, nn.NewLinear(1, 1, nil), ddp.Options{StaticGraph: true})
		if err != nil {
			return err
		}
		defer m.Close()
		return m.BeforeForward(ctx, false)
	}) {
		assert.ErrorContains(t, err, "Options.StaticGraph is set", "rank %d", rank)
	}
}

// The text of an embedding, say, goes through the same checkpointed layers as that of its pair.
func TestLayersThatAreCheckpointedTwiceNeedAStaticGraph(t *testing.T) {
	run := func(o ddp.Options) []error {
		return together(t, 2, func(ctx context.Context, g *dist.Group) error {
			below, layer := nn.NewLinear(1, 1, nil), nn.NewLinear(1, 1, nil)
			model := nn.Sequential{below, layer}
			torch.NoGrad(func() {
				for _, p := range nn.Params(model) {
					p.Tensor.Fill_(1)
				}
			})
			m, err := ddp.New(ctx, g, model, o)
			if err != nil {
				return err
			}
			defer m.Close()
			again := func(x float32) torch.Tensor {
				return torch.Checkpoint(func(in []torch.Tensor) []torch.Tensor {
					return []torch.Tensor{layer.Forward(in[0])}
				}, below.Forward(torch.From([]float32{x}, 1, 1)))[0]
			}
			for i := range 3 {
				for _, p := range nn.Params(model) {
					p.Tensor.SetGrad(torch.Tensor{})
				}
				if err := m.BeforeForward(ctx, true); err != nil {
					return err
				}
				loss := again(float32(g.Rank() + i)).Add(again(4)).Sum(torch.DefaultDType)
				if err := m.Backward(ctx, loss.Backward, loss); err != nil {
					return err
				}
				if err := same("weight", layer.Weight.Grad(), torch.From([]float32{6.5 + float32(i)}, 1, 1)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for rank, err := range run(ddp.Options{}) {
		assert.ErrorContains(t, err, "set ddp.Options.StaticGraph", "rank %d", rank)
	}
	all(t, run(ddp.Options{StaticGraph: true}))
}

func TestOptionsChangeNoGradient(t *testing.T) {
	for name, o := range map[string]ddp.Options{
		"many buckets":      {BucketCapMB: 1e-5},
		"bucket views":      {GradientAsBucketView: true},
		"a fixed graph":     {StaticGraph: true},
		"unused looked for": {FindUnusedParameters: true},
	} {
		t.Run(name, func(t *testing.T) {
			all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
				layer := nn.NewLinear(1, 1, nil)
				m, err := ddp.New(ctx, g, layer, o)
				if err != nil {
					return err
				}
				defer m.Close()
				for i := range 4 {
					for _, p := range nn.Params(layer) {
						p.Tensor.SetGrad(torch.Tensor{})
					}
					if err := pass(ctx, m, layer, float32(g.Rank()+i)); err != nil {
						return err
					}
					if err := errors.Join(same("weight", layer.Weight.Grad(), torch.From([]float32{0.5 + float32(i)}, 1,
						1)),
						same("bias", layer.Bias.Grad(), torch.From([]float32{1}))); err != nil {
						return err
					}
				}
				return nil
			}))
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	testenv.RequireTorch(t)
	_, err := ddp.New(t.Context(), nil, nn.NewLinear(1, 1, nil), ddp.Options{BucketCapMB: -1})
	require.ErrorContains(t, err, "BucketCapMB is -1")
	require.ErrorContains(t, ddp.AllReduce(t.Context(), nil, dist.Mean, torch.From([]int64{1})), "int64")
	require.ErrorContains(t, ddp.Broadcast(t.Context(), nil, 1, torch.Ones(1)), "there are 1 processes")
}
