package ddp

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/torch"
)

// ReduceScatter reduces tensors of the same shape over the processes, divides the result along its
// first dimension into one equal part per process, and returns the part of this process's rank:
// torch.distributed.reduce_scatter_tensor. t does not change; the result has no history.
func ReduceScatter(ctx context.Context, g *dist.Group, op dist.Op, t torch.Tensor) (part torch.Tensor, err error) {
	c, err := reduceScatter(g, op, t)
	if err != nil {
		return part, err
	}
	if g.World() == 1 {
		return t.Detach().Clone(), ctx.Err()
	}
	return c.run(ctx, g)
}

func reduceScatter(g *dist.Group, op dist.Op, t torch.Tensor) (c collective[torch.Tensor], err error) {
	name, ok := reductions[op]
	world := int64(g.World())
	switch shape := t.Shape(); {
	case !ok:
		return c, fmt.Errorf("ddp: ReduceScatter: %s is not a reduction; want Sum, Mean, Max, Min or Product", op)
	case op == dist.Mean && !t.DType().IsFloatingPoint():
		return c, fmt.Errorf("ddp: ReduceScatter: the mean of %s has no exact result; want Sum", t.DType())
	case len(shape) == 0 || shape[0]%world != 0:
		return c, fmt.Errorf("ddp: ReduceScatter: the shape is %v; want a first dimension that %d processes can "+
			"share out evenly", shape, world)
	}
	return collective[torch.Tensor]{
		call: fmt.Sprintf("ReduceScatter(%s of %s%v)", op, t.DType(), t.Shape()),
		start: func(p *torch.ProcessGroup) []operation {
			return []operation{operator("reduce_scatter_tensor", t.Detach().Contiguous(), name, world, p.Name())}
		},
		finish: func(_ *torch.ProcessGroup, done []torch.Tensor) torch.Tensor {
			part := done[0]
			if op == dist.Mean {
				part.Copy_(part.DivScalar(world))
			}
			return part
		},
	}, nil
}

// AllToAll sends parts[rank] to each process and returns what it received from them, in order of
// rank: torch.distributed.all_to_all. All parts of all processes must have the same dtype and,
// except for the first dimension, the same shape. If they do not, all processes return an error
// and the group keeps working. Results are on the device of the parts and have no history.
func AllToAll(ctx context.Context, g *dist.Group, parts []torch.Tensor) (received []torch.Tensor, err error) {
	if err := checkParts(g, parts); err != nil {
		return nil, err
	}
	if g.World() == 1 {
		return []torch.Tensor{parts[0].Detach().Clone()}, ctx.Err()
	}
	c, err := allToAll(ctx, g, parts)
	if err != nil {
		return nil, err
	}
	return c.run(ctx, g)
}

func checkParts(g *dist.Group, parts []torch.Tensor) error {
	if world := g.World(); len(parts) != world {
		return fmt.Errorf("ddp: AllToAll: there are %d parts; want one for each of %d processes", len(parts), world)
	}
	return nil
}

func allToAll(ctx context.Context, g *dist.Group, parts []torch.Tensor) (c collective[[]torch.Tensor], err error) {
	world := g.World()
	about := rowsOf(parts[0])
	wrong := ""
	lengths := make([]int64, world)
	for rank, t := range parts {
		switch r := rowsOf(t); {
		case len(r.Shape) == 0:
			wrong = fmt.Sprintf("the part for rank %d has no dimension", rank)
		case r.String() != about.String():
			wrong = fmt.Sprintf("the part for rank %d is a %s, that for rank 0 a %s", rank, r, about)
		default:
			lengths[rank] = r.Shape[0]
		}
	}
	if wrong != "" { // an error that all processes must learn of
		about = rows{wrong, []int64{0}}
	}
	if _, err := compareRows(ctx, g, "AllToAll", about); err != nil {
		return c, err
	}
	if wrong != "" {
		return c, fmt.Errorf("ddp: AllToAll: %s; want the same dtype and, but for the first dimension, the same shape",
			wrong)
	}
	text, err := json.Marshal(lengths)
	if err != nil {
		return c, err
	}
	told, err := g.AllGather(ctx, text)
	if err != nil {
		return c, err
	}
	comes := make([]int64, world)
	for rank, text := range told {
		var sends []int64
		if err := json.Unmarshal(text, &sends); err != nil || len(sends) != world {
			return c, g.Fail("AllToAll", fmt.Errorf("rank %d has sent no lengths: %w", rank, dist.ErrMismatch))
		}
		comes[rank] = sends[g.Rank()]
	}
	dtype := parts[0].DType()
	row := dtype.Size() // bytes
	for _, n := range about.Shape[1:] {
		row *= n
	}
	sends, receives := make([]int64, world), make([]int64, world)
	for rank := range parts {
		sends[rank], receives[rank] = lengths[rank]*row, comes[rank]*row
	}
	return collective[[]torch.Tensor]{
		call: "AllToAll(" + about.String() + ")",
		start: func(p *torch.ProcessGroup) []operation {
			flat := make([]torch.Tensor, world)
			for rank, t := range parts {
				flat[rank] = bytesOf(t)
			}
			return []operation{operator("all_to_all_single", torch.Cat(flat, 0), receives, sends, p.Name())}
		},
		finish: func(_ *torch.ProcessGroup, done []torch.Tensor) (received []torch.Tensor) {
			at := int64(0)
			for rank, n := range receives {
				shape := append([]int64{comes[rank]}, about.Shape[1:]...)
				received = append(received, fromBytes(done[0].Narrow(0, at, n), dtype).Reshape(shape...))
				at += n
			}
			return received
		},
	}, nil
}
