package dist

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
)

// AllReduce replaces the numbers in data by their reduction over all processes. data must have the
// same length in all of them. For tensors, use ddp.AllReduce.
func AllReduce[T Number](ctx context.Context, g *Group, data []T, op Op) error {
	kind := int64s
	if _, ok := any(data).([]float64); ok {
		kind = float64s
	}
	switch {
	case op < Sum || op > Product:
		return fmt.Errorf("dist: AllReduce: %s is not a reduction; want Sum, Mean, Max, Min or Product", op)
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

// Agree returns when all processes have called it with the same text, which says what they do
// next. If the texts differ, the group fails with [ErrMismatch], and the error quotes both.
func (g *Group) Agree(ctx context.Context, next string) error {
	if g.World() == 1 {
		return ctx.Err()
	}
	_, err := g.exchange(ctx, header{op: opBarrier}, next, nil)
	return err
}

// StartAgree is like [Group.Agree] but does not wait. next says what this process does next; then,
// if not nil, is run before any other call of this process. agreed returns when all processes have
// said the same. Processes can thus start the work while they agree on it, and use its results
// once they have.
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
	m := g.newCall(ctx, header{op: opBarrier}, next, nil)
	if err := m.start(false, then); err != nil {
		return nil, err
	}
	return sync.OnceValue(func() error {
		_, err := m.wait()
		return err
	}), nil
}

// Quiet is a call that is announced to the other processes only if it takes long: see
// [Group.StartQuiet]. The zero value is a call that is never announced.
type Quiet struct{ m *pendingCall }

// StartQuiet is like [Group.StartAgree] for work that cannot complete unless all processes do the
// same, such as a sum whose messages carry a hash of next. If the work succeeds soon, no further
// communication is needed. The caller must call [Quiet.Done] once when the work has succeeded, and
// [Quiet.Tell] if it has failed or takes long.
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
	m := g.newCall(ctx, header{op: opBarrier}, next, nil)
	if err := m.start(true, then); err != nil {
		return nil, err
	}
	return &Quiet{m}, nil
}

// Tell tells the other processes what this one does, if it is still doing it. From then on
// Options.Timeout applies and the group ends with the context. If the other processes do something
// else, the group fails with [ErrMismatch].
func (q *Quiet) Tell() {
	if q.m != nil {
		q.m.g.calls.Lock()
		defer q.m.g.calls.Unlock()
		q.m.g.announce(q.m)
	}
}

// Done says that the work has succeeded, which is possible only if all processes did the same.
func (q *Quiet) Done() {
	if q.m != nil {
		q.m.end()
	}
}

// Broadcast copies the bytes of process root to all others, whose data must have the same length.
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

// AllGather returns the bytes of all processes, in order of rank. Their lengths may differ.
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
