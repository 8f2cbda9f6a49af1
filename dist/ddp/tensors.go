package ddp

import (
	"context"
	"fmt"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/torch"
)

// AllReduce replaces the values of the tensors by their reduction over all processes:
// torch.distributed.all_reduce. Results are written into the tensors, which may not be expanded. A
// mean is the sum divided by the number of processes.
func AllReduce(ctx context.Context, g *dist.Group, op dist.Op, ts ...torch.Tensor) error {
	name, ok := reductions[op]
	if !ok {
		return fmt.Errorf("ddp: AllReduce: %s is no reduction; want Sum, Mean, Max, Min or Product", op)
	}
	for i, t := range ts {
		if op == dist.Mean && !t.DType().IsFloatingPoint() {
			return fmt.Errorf("ddp: AllReduce: the mean of tensor %d, of %s, has no exact result; want Sum", i,
				t.DType())
		}
	}
	if g.World() == 1 || len(ts) == 0 {
		return ctx.Err()
	}
	return Collective(ctx, g, fmt.Sprintf("AllReduce(%s of %s)", op, describe(ts)), func(p *torch.ProcessGroup) {
		torch.Scope(func() {
			for _, list := range byType(ts) {
				flat := list[0] // of one tensor the values are used as they are
				if len(list) > 1 || !flat.IsContiguous() {
					flat = flatten(list)
				}
				wait(torch.Call("_c10d_functional::all_reduce_", flat, name, p.Name())[0])
				if op == dist.Mean {
					flat.Copy_(flat.DivScalar(g.World()))
				}
				if flat.Is(list[0]) {
					continue
				}
				at := int64(0)
				for _, t := range list {
					t.Copy_(flat.Narrow(0, at, t.Numel()).Reshape(t.Shape()...))
					at += t.Numel()
				}
			}
		})
	})
}

// reductions are the names of operations in _c10d_functional.
var reductions = map[dist.Op]string{dist.Sum: "sum", dist.Mean: "sum", dist.Max: "max", dist.Min: "min",
	dist.Product: "product"}

// byType divides tensors into lists of one dtype and device; empty ones are left out.
func byType(ts []torch.Tensor) (lists [][]torch.Tensor) {
	type kind struct {
		dtype  torch.DType
		device torch.Device
	}
	at := map[kind]int{}
	for _, t := range ts {
		if t.Numel() == 0 {
			continue
		}
		k := kind{t.DType(), t.Device()}
		i, ok := at[k]
		if !ok {
			i = len(lists)
			at[k] = i
			lists = append(lists, nil)
		}
		lists[i] = append(lists[i], t)
	}
	return lists
}

func flatten(ts []torch.Tensor) torch.Tensor {
	parts := make([]torch.Tensor, len(ts))
	for i, t := range ts {
		parts[i] = t.Reshape(-1)
	}
	return torch.Cat(parts, 0)
}

// describe is what other processes must have as well: "float32[3] and 2 more".
func describe(ts []torch.Tensor) string {
	text := fmt.Sprintf("%s%v", ts[0].DType(), ts[0].Shape())
	if len(ts) == 1 {
		return text
	}
	elements := int64(0)
	for _, t := range ts {
		elements += t.Numel()
	}
	return fmt.Sprintf("%s and %d more, %d elements", text, len(ts)-1, elements)
}

// Broadcast replaces the values of the tensors by those of the process root.
func Broadcast(ctx context.Context, g *dist.Group, root int, ts ...torch.Tensor) error {
	if root < 0 || root >= g.World() {
		return fmt.Errorf("ddp: Broadcast from rank %d: there are %d processes", root, g.World())
	}
	if g.World() == 1 || len(ts) == 0 {
		return ctx.Err()
	}
	name := fmt.Sprintf("Broadcast(%s from rank %d)", describe(ts), root)
	return Collective(ctx, g, name, func(p *torch.ProcessGroup) { p.Broadcast(root, ts...) })
}
