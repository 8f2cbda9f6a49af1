package ddp

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/torch"
)

// AllReduce replaces the values of the tensors by their reduction over all processes:
// torch.distributed.all_reduce. Results are written into the tensors, which must not be expanded
// ones. A mean is the sum divided by the number of processes.
func AllReduce(ctx context.Context, g *dist.Group, op dist.Op, ts ...torch.Tensor) error {
	c, err := allReduce(op, ts)
	if err != nil {
		return err
	}
	if g.World() == 1 || len(ts) == 0 {
		return ctx.Err()
	}
	torch.Scope(func() { _, err = c.run(ctx, g) })
	return err
}

func allReduce(op dist.Op, ts []torch.Tensor) (c collective[[]torch.Tensor], err error) {
	name, ok := reductions[op]
	if !ok {
		return c, fmt.Errorf("ddp: AllReduce: %s is not a reduction; want Sum, Mean, Max, Min or Product", op)
	}
	for i, t := range ts {
		if op == dist.Mean && !t.DType().IsFloatingPoint() {
			return c, fmt.Errorf("ddp: AllReduce: the mean of tensor %d, of %s, has no exact result; want Sum", i,
				t.DType())
		}
	}
	if len(ts) == 0 {
		return c, nil
	}
	call := fmt.Sprintf("AllReduce(%s of %s)", op, describe(ts))
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(call)) // a hash never returns an error
	return collective[[]torch.Tensor]{
		call:  call,
		quiet: slices.ContainsFunc(ts, func(t torch.Tensor) bool { return t.Numel() > 0 }),
		start: func(p *torch.ProcessGroup) []operation {
			return eachFlat(ts, func(flat torch.Tensor) operation {
				if flat.Device().IsCUDA() {
					return operator("all_reduce_", flat, name, p.Name())
				}
				return operation{flat, p.StartAllReduce(flat, name, hash.Sum32())}
			})
		},
		finish: func(p *torch.ProcessGroup, done []torch.Tensor) []torch.Tensor {
			if op == dist.Mean {
				for _, flat := range done {
					flat.Copy_(flat.DivScalar(p.World()))
				}
			}
			unflatten(ts, done)
			return ts
		},
	}, nil
}

// eachFlat calls f for the tensors of each dtype and device, concatenated into one flat tensor.
func eachFlat(ts []torch.Tensor, f func(flat torch.Tensor) operation) (started []operation) {
	for _, list := range byType(ts) {
		flat := list[0] // a single contiguous tensor is used in place
		if len(list) > 1 || !flat.IsContiguous() {
			flat = flatten(list)
		}
		started = append(started, f(flat))
	}
	return started
}

// unflatten copies the values of the flat tensors back into the tensors.
func unflatten(ts, rows []torch.Tensor) {
	for i, list := range byType(ts) {
		if len(list) == 1 && list[0].IsContiguous() {
			continue // it was used in place
		}
		at := int64(0)
		for _, t := range list {
			t.Copy_(rows[i].Narrow(0, at, t.Numel()).Reshape(t.Shape()...))
			at += t.Numel()
		}
	}
}

// reductions are the names of the operations in _c10d_functional.
var reductions = map[dist.Op]string{dist.Sum: "sum", dist.Mean: "sum", dist.Max: "max", dist.Min: "min",
	dist.Product: "product"}

// byType groups tensors by dtype and device; empty ones are left out.
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

// describe returns what all processes must have in common, such as "float32[3] and 2 more".
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

// Broadcast replaces the values of the tensors by those of process root.
func Broadcast(ctx context.Context, g *dist.Group, root int, ts ...torch.Tensor) error {
	if err := checkRoot(g, root); err != nil {
		return err
	}
	if g.World() == 1 || len(ts) == 0 {
		return ctx.Err()
	}
	return Collective(ctx, g, broadcastCall(root, ts), func(p *torch.ProcessGroup) { p.Broadcast(root, ts...) })
}

func checkRoot(g *dist.Group, root int) error {
	if root < 0 || root >= g.World() {
		return fmt.Errorf("ddp: Broadcast from rank %d: there are %d processes", root, g.World())
	}
	return nil
}

func broadcastCall(root int, ts []torch.Tensor) string {
	return fmt.Sprintf("Broadcast(%s from rank %d)", describe(ts), root)
}
