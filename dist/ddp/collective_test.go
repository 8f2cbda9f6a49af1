package ddp_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/torch"
)

// of returns the tensor of a rank. The ranks' tensors differ, and hold integers, so that sums are
// exact in any order.
func of(rank int, shape ...int64) torch.Tensor {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return torch.Arange(n).ToDType(torch.Float32).AddScalar(100 * rank).Reshape(shape...)
}

// sum returns the sum of the tensors of all ranks.
func sum(world int, shape ...int64) torch.Tensor {
	total := of(0, shape...)
	for rank := 1; rank < world; rank++ {
		total = total.Add(of(rank, shape...))
	}
	return total
}

func TestCollectivesComputeWhatOneProcessDoes(t *testing.T) {
	for world := 1; world <= 4; world++ {
		all(t, together(t, world, func(ctx context.Context, g *dist.Group) error {
			n, r := int64(world), int64(g.Rank())
			part, err := ddp.ReduceScatter(ctx, g, dist.Sum, of(g.Rank(), 2*n, 3))
			if err != nil {
				return err
			}
			errs := same("the part of the sum", part, sum(world, 2*n, 3).Narrow(0, 2*r, 2))
			if part, err = ddp.ReduceScatter(ctx, g, dist.Max, of(g.Rank(), n)); err != nil {
				return err
			}
			errs = errors.Join(errs, same("the part of the maximum", part, of(world-1, n).Narrow(0, r, 1)))
			if part, err = ddp.ReduceScatter(ctx, g, dist.Mean, of(g.Rank(), n)); err != nil {
				return err
			}
			errs = errors.Join(errs, same("the part of the mean", part, sum(world, n).DivScalar(world).Narrow(0, r, 1)))

			product := torch.Full(2.0, 3)
			if err := ddp.AllReduce(ctx, g, dist.Product, product); err != nil {
				return err
			}
			errs = errors.Join(errs, same("the product", product, torch.Full(float64(int(1)<<world), 3)))

			flags, err := ddp.AllGather(ctx, g, torch.From([]bool{true, r == 0}[:1+r%2]))
			if err != nil {
				return err
			}
			for rank, f := range flags {
				errs = errors.Join(errs, same("flags", f, torch.From([]bool{true, rank == 0}[:1+rank%2])))
			}
			scalars, err := ddp.AllGather(ctx, g, torch.Full(float64(r)))
			if err != nil {
				return err
			}
			errs = errors.Join(errs, same("the last number", scalars[world-1], torch.Full(float64(world-1))))

			var parts []torch.Tensor // rank r sends r+to rows to rank to
			for to := range world {
				parts = append(parts, of(10*g.Rank()+to, r+int64(to), 2))
			}
			got, err := ddp.AllToAll(ctx, g, parts)
			if err != nil {
				return err
			}
			for from, part := range got {
				errs = errors.Join(errs, same(fmt.Sprint("what came from ", from), part,
					of(10*from+g.Rank(), r+int64(from), 2)))
			}
			return errors.Join(errs, g.Barrier(ctx))
		}))
	}
}

func TestGradientsTakeTheWayBack(t *testing.T) {
	for world := 2; world <= 4; world++ {
		all(t, together(t, world, func(ctx context.Context, g *dist.Group) error {
			p, err := ddp.ProcessGroup(ctx, g)
			if err != nil {
				return err
			}
			n, r := int64(world), int64(g.Rank())
			var errs error
			check := func(name string, x, y, factor, want, gradient torch.Tensor) {
				errs = errors.Join(errs, same(name, y.Detach(), want))
				y.Mul(factor).Sum(torch.DefaultDType).Backward()
				errs = errors.Join(errs, same("the gradient of "+name, x.Grad(), gradient))
			}
			x := of(g.Rank(), n, 2).RequiresGrad()
			check("AllReduce", x, p.AllReduce(x), of(g.Rank(), n, 2), sum(world, n, 2), sum(world, n, 2))

			x = of(g.Rank(), 1, 2).RequiresGrad()
			var rows []torch.Tensor
			for rank := range world {
				rows = append(rows, of(rank, 1, 2))
			}
			check("AllGather", x, p.AllGather(x), of(g.Rank(), n, 2), torch.Cat(rows, 0), sum(world, n, 2).Narrow(0, r, 1))

			x = of(g.Rank(), n, 2).RequiresGrad()
			check("ReduceScatter", x, p.ReduceScatter(x), of(g.Rank(), 1, 2), sum(world, n, 2).Narrow(0, r, 1),
				torch.Cat(rows, 0))

			ones := make([]int64, world)
			var came []torch.Tensor
			for rank := range world {
				ones[rank] = 1
				came = append(came, of(rank, n, 2).Narrow(0, r, 1))
			}
			x = of(g.Rank(), n, 2).RequiresGrad()
			check("AllToAll", x, p.AllToAll(x, ones, ones), of(g.Rank(), n, 2), torch.Cat(came, 0), torch.Cat(came, 0))
			return errors.Join(errs, g.Barrier(ctx))
		}))
	}
}

func TestATensorGoesFromOneProcessToAnother(t *testing.T) {
	all(t, together(t, 3, func(ctx context.Context, g *dist.Group) error {
		if err := ddp.Send(ctx, g, torch.Ones(1), (g.Rank()+1)%3); err == nil {
			return errors.New("a group without connections has sent something")
		}
		if err := ddp.AllReduce(ctx, g, dist.Sum, torch.Ones(1)); err != nil {
			return err
		}
		sent := []torch.Tensor{of(7, 2, 3), torch.From([]int64{1, 2}), torch.Zeros(0, 5), torch.Full(2.5),
			torch.From([]bool{true})}
		for _, want := range sent {
			switch g.Rank() { // along a line of processes: 0, 1, 2
			case 0:
				if err := ddp.Send(ctx, g, want, 1); err != nil {
					return err
				}
			default:
				got, err := ddp.Recv(ctx, g, g.Rank()-1, torch.CPU)
				if err != nil {
					return err
				}
				if err := same("what came", got, want); err != nil {
					return err
				}
				if g.Rank() == 1 {
					if err := ddp.Send(ctx, g, got, 2); err != nil {
						return err
					}
				}
			}
		}
		err := ddp.Send(ctx, g, torch.Ones(1), g.Rank())
		if err == nil || err.Error() != fmt.Sprintf("ddp: Send(float32[1] to rank %d): there are 3 processes, and this "+
			"one is rank %d; want another one", g.Rank(), g.Rank()) {
			return fmt.Errorf("to itself: %w", err)
		}
		return g.Barrier(ctx)
	}))
}

func TestCollectivesThatDifferSayWhoDoesWhat(t *testing.T) {
	for name, c := range map[string]struct {
		call func(ctx context.Context, g *dist.Group) error
		says []string
	}{
		"shapes": {func(ctx context.Context, g *dist.Group) error {
			_, err := ddp.ReduceScatter(ctx, g, dist.Sum, torch.Ones(int64(2+2*g.Rank())))
			return err
		}, []string{"ReduceScatter(sum of float32[2])", "ReduceScatter(sum of float32[4])"}},
		"dtypes": {func(ctx context.Context, g *dist.Group) error {
			return ddp.AllReduce(ctx, g, dist.Sum, torch.Ones(2).ToDType([]torch.DType{torch.Float32,
				torch.Float64}[g.Rank()]))
		}, []string{"AllReduce(sum of float32[2])", "AllReduce(sum of float64[2])"}},
		"order": {func(ctx context.Context, g *dist.Group) error {
			if g.Rank() == 0 {
				return ddp.Broadcast(ctx, g, 0, torch.Ones(2))
			}
			return ddp.AllReduce(ctx, g, dist.Sum, torch.Ones(2))
		}, []string{"AllReduce(sum of float32[2])", "Broadcast(float32[2] from rank 0)"}},
		"operations": {func(ctx context.Context, g *dist.Group) error {
			return ddp.AllReduce(ctx, g, []dist.Op{dist.Sum, dist.Product}[g.Rank()], torch.Ones(2))
		}, []string{"AllReduce(sum of float32[2])", "AllReduce(product of float32[2])"}},
	} {
		t.Run(name, func(t *testing.T) {
			for rank, err := range together(t, 2, c.call) {
				require.ErrorIs(t, err, dist.ErrMismatch, "rank %d", rank)
				for _, text := range c.says {
					assert.ErrorContains(t, err, text, "rank %d", rank)
				}
			}
		})
	}
}

func TestCollectivesRefuseOnAllWhatDoesNotFit(t *testing.T) {
	all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
		_, uneven := ddp.ReduceScatter(ctx, g, dist.Sum, torch.Ones(3))
		_, integers := ddp.ReduceScatter(ctx, g, dist.Mean, torch.From([]int64{1, 2}))
		_, few := ddp.AllToAll(ctx, g, []torch.Tensor{torch.Ones(1)})
		widths := []torch.Tensor{torch.Ones(1, 2), torch.Ones(1, int64(2+g.Rank()))}
		_, wide := ddp.AllToAll(ctx, g, widths)
		_, widest := ddp.AllGather(ctx, g, torch.Ones(1, int64(1+g.Rank())))
		for want, err := range map[string]error{
			"the shape is [3]; want a first dimension that 2 processes can share out evenly": uneven,
			"the mean of int64 has no exact result; want Sum":                                integers,
			"there are 1 parts; want one for each of 2 processes":                            few,
			"want the same dtype and, but for the first dimension, the same shape":           wide,
			"AllGather: rank 1 has a float32[1 2], rank 0 a float32[1 1]":                    widest,
			"Broadcast from rank 2: there are 2 processes": ddp.Broadcast(ctx, g, 2,
				widths...),
		} {
			if !assert.ErrorContains(t, err, want) {
				return err
			}
		}
		return ddp.AllReduce(ctx, g, dist.Sum, torch.Ones(1)) // the group still works
	}))
}

func TestACallLearnsWhoHasGone(t *testing.T) {
	ddp.SetAfterLeaving(t, 50*time.Millisecond)
	for name, call := range map[string]func(ctx context.Context, g *dist.Group) error{
		"ReduceScatter": func(ctx context.Context, g *dist.Group) error {
			_, err := ddp.ReduceScatter(ctx, g, dist.Sum, torch.Ones(3))
			return err
		},
		"AllToAll": func(ctx context.Context, g *dist.Group) error {
			_, err := ddp.AllToAll(ctx, g, []torch.Tensor{torch.Ones(1), torch.Ones(1), torch.Ones(1)})
			return err
		},
		"Recv": func(ctx context.Context, g *dist.Group) error {
			_, err := ddp.Recv(ctx, g, 2, torch.CPU)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for rank, err := range together(t, 3, func(ctx context.Context, g *dist.Group) error {
				if err := ddp.AllReduce(ctx, g, dist.Sum, torch.Ones(1)); err != nil || g.Rank() == 2 {
					return err
				}
				return call(ctx, g)
			}) {
				if rank == 2 {
					require.NoError(t, err)
					continue
				}
				require.ErrorIs(t, err, dist.ErrPeerLeft, "rank %d", rank)
				assert.ErrorContains(t, err, "rank 2: ", "rank %d", rank)
			}
		})
	}
}
