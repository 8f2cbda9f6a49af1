package dist

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
)

// AllReduce replaces the numbers of data by their reduction over all processes. The slices of all
// have the same length. Tensors are for ddp.AllReduce.
func AllReduce[T Number](ctx context.Context, g *Group, data []T, op Op) error {
	kind := int64s
	if _, ok := any(data).([]float64); ok {
		kind = float64s
	}
	switch {
	case op < Sum || op > Product:
		return fmt.Errorf("dist: AllReduce: %s is no reduction; want Sum, Mean, Max, Min or Product", op)
	case op == Mean && kind == int64s:
		return fmt.Errorf("dist: AllReduce: the mean of %s has no exact result; want Sum, or float64", kind)
	case g.World() == 1:
		return ctx.Err()
	}
	answer, err := g.exchange(ctx, header{op: op, number: kind}, fmt.Sprintf("AllReduce(%s, %d %s)", op, len(data), kind),
		numberBytes(data))
	if err == nil {
		readNumbers(answer, data)
	}
	return err
}

// Barrier returns when all processes have called it.
func (g *Group) Barrier(ctx context.Context) error { return g.Agree(ctx, "Barrier()") }

// Agree returns when all processes have called it with the same text, which says what they do next.
// Where they differ, the group fails with [ErrMismatch] and both texts.
func (g *Group) Agree(ctx context.Context, next string) error {
	if g.World() == 1 {
		return ctx.Err()
	}
	_, err := g.exchange(ctx, header{op: opNothing}, next, nil)
	return err
}

// StartAgree is [Group.Agree] that does not wait: it says what this process does next and runs then,
// if it is not nil, before any other call of this process. agreed returns when all have said the
// same. So processes may begin what they agree about, and use what comes of it when they have.
func (g *Group) StartAgree(ctx context.Context, next string, then func()) (agreed func() error, err error) {
	if g.World() == 1 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if then != nil {
			then()
		}
		return func() error { return nil }, nil
	}
	m := g.newCall(ctx, header{op: opNothing}, next, nil)
	if err := m.start(false, then); err != nil {
		return nil, err
	}
	return sync.OnceValue(func() error {
		_, err := m.wait()
		return err
	}), nil
}

// Quiet is a call of which the other processes hear only if it takes long: see [Group.StartQuiet]. The
// zero value is one of which nobody hears.
type Quiet struct{ m *made }

// StartQuiet is [Group.StartAgree] for work that ends nowhere unless all processes do the same, such
// as a sum whose messages carry a hash of next: where it ends well soon, nothing else needs to be
// said. The caller makes one call to [Quiet.Done] when it has, and calls [Quiet.Tell] when it has
// failed or takes long.
func (g *Group) StartQuiet(ctx context.Context, next string, then func()) (*Quiet, error) {
	if g.World() == 1 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if then != nil {
			then()
		}
		return &Quiet{}, nil
	}
	m := g.newCall(ctx, header{op: opNothing}, next, nil)
	if err := m.start(true, then); err != nil {
		return nil, err
	}
	return &Quiet{m}, nil
}

// Tell has the others know what this process does, if it does it still: from then on Options.Timeout
// counts, the group ends with the context, and with [ErrMismatch] where they do something else.
func (q *Quiet) Tell() {
	if q.m != nil {
		q.m.g.calls.Lock()
		defer q.m.g.calls.Unlock()
		q.m.g.tell(q.m)
	}
}

// Done says that the work has ended well, as it can only where all processes do the same.
func (q *Quiet) Done() {
	if q.m != nil {
		q.m.end()
	}
}

// Broadcast copies the bytes of the process root to all others, whose data is as long.
func (g *Group) Broadcast(ctx context.Context, data []byte, root int) error {
	if root < 0 || root >= g.World() {
		return fmt.Errorf("dist: Broadcast from rank %d: there are %d processes", root, g.World())
	}
	if g.World() == 1 {
		return ctx.Err()
	}
	var part []byte
	if root == g.rank {
		part = data
	}
	answer, err := g.exchange(ctx, header{op: opBroadcast, root: uint32(root)},
		fmt.Sprintf("Broadcast(%d bytes from rank %d)", len(data), root), part)
	if err == nil && root != g.rank {
		copy(data, answer)
	}
	return err
}

// AllGather returns the bytes of all processes by rank. They may differ in length.
func (g *Group) AllGather(ctx context.Context, data []byte) ([][]byte, error) {
	all := make([][]byte, g.World())
	all[g.Rank()] = data
	if g.World() == 1 {
		return all, ctx.Err()
	}
	answer, err := g.exchange(ctx, header{op: opGather}, "AllGather()", data)
	if err != nil {
		return nil, err
	}
	for rank := range all {
		n := binary.LittleEndian.Uint64(answer)
		all[rank], answer = answer[8:8+n:8+n], answer[8+n:]
	}
	return all, nil
}
