package ddp_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// detail sets TORCH_DISTRIBUTED_DEBUG=DETAIL, with which libtorch compares every collective.
func detail(o *dist.Options) {
	o.Getenv = func(name string) string { return map[string]string{"TORCH_DISTRIBUTED_DEBUG": "detail"}[name] }
}

// Package dist does not compare the calls of a ProcessGroup, but libtorch does.
func TestCheckedCollectivesThatDifferNameTheRanks(t *testing.T) {
	testenv.RequireTorch(t)
	for name, c := range map[string]struct {
		mine func(p *torch.ProcessGroup, rank int)
		want string
	}{
		"shapes": {func(p *torch.ProcessGroup, rank int) { p.AllReduce(of(0, int64(3+rank))) }, "TensorShape"},
		"dtypes": {func(p *torch.ProcessGroup, rank int) {
			p.AllReduce(of(0, 3).ToDType([]torch.DType{torch.Float32, torch.Int64}[rank]))
		}, "TensorDtypes"},
		"operators": {func(p *torch.ProcessGroup, rank int) {
			if rank == 0 {
				p.AllReduce(of(0, 2))
			} else {
				p.AllGather(of(0, 2))
			}
		}, "ALLREDUCE"},
	} {
		t.Run(name, func(t *testing.T) {
			errs := ranktest.Together(t, 2, detail, func(ctx context.Context, g *dist.Group) error {
				p, err := ddp.ProcessGroup(ctx, g)
				if err != nil {
					return err
				}
				return errors.Join(torch.Try(func() { c.mine(p, g.Rank()) }), g.Barrier(ctx))
			})
			for rank, err := range errs {
				require.ErrorContains(t, err, "mismatch between collectives on ranks", "rank %d", rank)
				assert.ErrorContains(t, err, c.want, "rank %d", rank)
			}
		})
	}
}

func TestCheckedTrainingHasTheBitsOfUnchecked(t *testing.T) {
	testenv.RequireTorch(t)
	weights := map[bool][]byte{}
	for _, checked := range []bool{false, true} {
		set := func(o *dist.Options) { o.Checked = checked }
		all(t, ranktest.Together(t, 3, set, func(ctx context.Context, g *dist.Group) error {
			assert.Equal(t, checked, g.Checked())
			m := nn.Sequential{nn.NewLinear(4, 8, nil), nn.NewLinear(8, 1, nil)}
			torch.NoGrad(func() {
				for _, p := range nn.Params(m) {
					p.Tensor.Copy_(of(0, p.Tensor.Shape()...).DivScalar(7))
				}
			})
			parallel, err := ddp.New(ctx, g, m, ddp.Options{})
			if err != nil {
				return err
			}
			for range 2 {
				if err := parallel.BeforeForward(ctx, true); err != nil {
					return err
				}
				loss := m.Forward(of(g.Rank(), 2, 4).DivScalar(64)).Sum(0)
				if err := parallel.Backward(ctx, loss.Backward, loss); err != nil {
					return err
				}
			}
			works, err := startAll(ctx, g)
			for _, w := range works {
				got, e := w.wait(ctx)
				if err = errors.Join(err, e); e == nil {
					err = errors.Join(err, same(w.name, got[0], w.want[0]))
				}
			}
			if g.Main() {
				weights[checked] = nn.Params(m)[0].Tensor.Grad().Bytes()
			}
			return err
		}))
	}
	assert.Equal(t, weights[false], weights[true])
}

func TestOnlySomeProcessesThatCheckAreNamed(t *testing.T) {
	set := func(o *dist.Options) { o.Checked = o.Rank == 1 }
	errs := ranktest.Together(t, 2, set, func(ctx context.Context, g *dist.Group) error {
		return ddp.AllReduce(ctx, g, dist.Sum, of(g.Rank(), 1))
	})
	for rank, err := range errs {
		require.ErrorIs(t, err, dist.ErrMismatch, "rank %d", rank)
		assert.ErrorContains(t, err, "joining gloo")
	}
}

func TestTheGPUOfAProcessIsThatOfItsLocalRank(t *testing.T) {
	for _, c := range []struct {
		local, gpus int
		nccl        bool
		want        torch.Device
	}{
		{0, 0, true, torch.CPU}, {3, 8, true, torch.CUDA(3)}, {3, 8, false, torch.CPU},
		{3, 1, true, torch.CUDA(0)}, // the launcher shows each process only its own GPU
		{3, 2, true, torch.CPU},     // more processes than GPUs
	} {
		assert.Equal(t, c.want, ddp.DeviceOf(c.local, c.gpus, c.nccl), "%+v", c)
	}
}

func TestTLSIsRefusedOnAllProcesses(t *testing.T) {
	testenv.RequireTorch(t)
	t.Setenv("GLOO_DEVICE_TRANSPORT", "TCP_TLS")
	for rank, err := range ranktest.Together(t, 2, nil, func(ctx context.Context, g *dist.Group) error {
		return ddp.AllReduce(ctx, g, dist.Sum, of(g.Rank(), 1))
	}) {
		require.ErrorContains(t, err, "GLOO_DEVICE_TRANSPORT is TCP_TLS", "rank %d", rank)
	}
}
