package dist

import (
	"context"
	"encoding/binary"
	"fmt"
)

// Number is an element of a slice that [AllReduce] takes.
type Number interface {
	float32 | float64 | int32 | int64 | uint8
}

// AllReduce replaces the numbers of data by their reduction over all processes. The slices of all
// have the same length.
func AllReduce[T Number](ctx context.Context, g *Group, data []T, op Op) error {
	var d DType
	switch any(data).(type) {
	case []float32:
		d = Float32
	case []float64:
		d = Float64
	case []int32:
		d = Int32
	case []int64:
		d = Int64
	case []uint8:
		d = Uint8
	}
	b, err := binary.Append(make([]byte, 0, len(data)*d.Size()), binary.LittleEndian, data)
	if err != nil {
		return fmt.Errorf("dist: AllReduce: %w", err)
	}
	if err := g.AllReduce(ctx, b, d, op); err != nil {
		return err
	}
	_, err = binary.Decode(b, binary.LittleEndian, data)
	return err
}

// Barrier returns when all processes have called it.
func (g *Group) Barrier(ctx context.Context) error {
	if g.World() == 1 {
		return ctx.Err()
	}
	return g.run(ctx, header{kind: kindBarrier}, func(c *call) error {
		wait := c.send(0, func(int) ([]byte, bool) { return nil, true })
		for rank := range g.world {
			if rank == g.rank {
				continue
			}
			if _, err := c.receive(rank, 0); err != nil {
				return err
			}
		}
		return wait()
	})
}

// Broadcast copies the bytes of the process root to all others, whose data is as long.
func (g *Group) Broadcast(ctx context.Context, data []byte, root int) error {
	if root < 0 || root >= g.World() {
		return fmt.Errorf("dist: Broadcast from rank %d: there are %d processes", root, g.World())
	}
	if g.World() == 1 {
		return ctx.Err()
	}
	return g.run(ctx, header{kind: kindBroadcast, rank: uint32(root), count: uint64(len(data))}, func(c *call) error {
		if root == g.rank {
			return c.send(0, func(int) ([]byte, bool) { return data, true })()
		}
		f, err := c.receive(root, 0)
		if err != nil {
			return err
		}
		copy(data, f.payload)
		g.peers[root].recycle(f.payload)
		return nil
	})
}

// AllGather returns the bytes of all processes by rank. They may differ in length.
func (g *Group) AllGather(ctx context.Context, data []byte) ([][]byte, error) {
	all := make([][]byte, g.World())
	all[g.Rank()] = data
	if g.World() == 1 {
		return all, ctx.Err()
	}
	err := g.run(ctx, header{kind: kindAllGather}, func(c *call) error {
		wait := c.send(0, func(int) ([]byte, bool) { return data, true })
		for rank := range g.world {
			if rank == g.rank {
				continue
			}
			f, err := c.receive(rank, 0)
			if err != nil {
				return err
			}
			all[rank] = f.payload
		}
		return wait()
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// small is up to how many bytes everybody sums everything: one exchange in place of two.
const small = 32 << 10

// AllReduce replaces the elements of data, little-endian as tensors have them, by their reduction
// over all processes.
func (g *Group) AllReduce(ctx context.Context, data []byte, d DType, op Op) error {
	size := d.Size()
	switch {
	case size == 0 || len(data)%size != 0:
		return fmt.Errorf("dist: AllReduce of %d bytes as %s: want a type that can be reduced, and whole elements",
			len(data), d)
	case op < Sum || op > Product:
		return fmt.Errorf("dist: AllReduce: %s is no reduction; want Sum, Mean, Max, Min or Product", op)
	case op == Mean && !d.isFloat():
		return fmt.Errorf("dist: AllReduce: the mean of %s has no exact result; want Sum, or a floating-point type", d)
	}
	if g.World() == 1 {
		return ctx.Err()
	}
	h := header{kind: kindAllReduce, op: op, dtype: d, count: uint64(len(data) / size)}
	return g.run(ctx, h, func(c *call) error {
		if len(data) <= small {
			return c.reduceAll(data)
		}
		return c.reduceParts(data)
	})
}

// reduceAll sends everything to everybody.
func (c *call) reduceAll(data []byte) error {
	mine := append([]byte(nil), data...)
	wait := c.send(0, func(int) ([]byte, bool) { return mine, true })
	if err := c.reducePart(data); err != nil {
		return err
	}
	return wait()
}

// reduceParts has every process reduce one part, and then sends the parts around.
func (c *call) reduceParts(data []byte) error {
	g, size := c.g, c.h.dtype.Size()
	part := func(rank int) []byte {
		n := len(data) / size
		return data[n*rank/g.world*size : n*(rank+1)/g.world*size]
	}
	wait := c.send(0, func(rank int) ([]byte, bool) { return part(rank), true })
	if err := c.reducePart(part(g.rank)); err != nil {
		return err
	}
	if err := wait(); err != nil { // what is read below overwrites what was sent
		return err
	}
	wait = c.send(1, func(int) ([]byte, bool) { return part(g.rank), true })
	for rank := range g.world {
		if rank == g.rank {
			continue
		}
		f, err := c.receive(rank, 1)
		if err != nil {
			return err
		}
		copy(part(rank), f.payload)
		g.peers[rank].recycle(f.payload)
	}
	return wait()
}

// reducePart reduces data with what the others have sent, in the order of the ranks.
func (c *call) reducePart(data []byte) error {
	g := c.g
	acc := data
	for rank := range g.world {
		if rank == g.rank {
			if rank > 0 {
				reduce(acc, data, c.h.dtype, c.h.op)
			}
			continue
		}
		f, err := c.receive(rank, 0)
		if err != nil {
			return err
		}
		if len(f.payload) != len(data) {
			return &Error{Call: c.h.String(), Rank: g.rank, Peer: rank, Err: fmt.Errorf("%w: %d bytes came, want %d",
				ErrMismatch, len(f.payload), len(data))}
		}
		if rank == 0 {
			acc = f.payload
			continue
		}
		reduce(acc, f.payload, c.h.dtype, c.h.op)
		g.peers[rank].recycle(f.payload)
	}
	if g.rank > 0 {
		copy(data, acc)
		g.peers[0].recycle(acc)
	}
	if c.h.op == Mean {
		divide(data, c.h.dtype, g.world)
	}
	return nil
}
