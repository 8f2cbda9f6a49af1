package ddp

import (
	"cmp"
	"context"
	"sync"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/torch"
)

// plan is a collective: what it starts, and what becomes of that.
type plan[T any] struct {
	call   string                                           // as errors and the other processes see it
	start  func(p *torch.ProcessGroup) []torch.Tensor       // of operators that are under way
	finish func(p *torch.ProcessGroup, ts []torch.Tensor) T // when they are done
}

// underWay is a collective that was started.
type underWay struct {
	group   *torch.ProcessGroup
	started []torch.Tensor
	agreed  func() error // see announce
}

// launch starts a collective.
func (c plan[T]) launch(ctx context.Context, g *dist.Group) (u underWay, err error) {
	j, err := processGroup(ctx, g)
	if err != nil {
		return u, err
	}
	u.group = j.ProcessGroup
	var failed error
	u.agreed, err = j.announce(ctx, g, c.call, func() {
		failed = running(ctx, g, u.group, c.call, func(p *torch.ProcessGroup) { u.started = c.start(p) })
	})
	if failed != nil {
		err = cmp.Or(u.agreed(), failed)
	}
	return u, err
}

// wait returns when the engine has done its part.
func (u underWay) wait() {
	for _, t := range u.started {
		wait(t)
	}
}

// run starts a collective and waits for it.
func (c plan[T]) run(ctx context.Context, g *dist.Group) (result T, err error) {
	u, err := c.launch(ctx, g)
	if err != nil {
		return result, err
	}
	err = running(ctx, g, u.group, c.call, func(p *torch.ProcessGroup) {
		u.wait()
		result = c.finish(p, u.started)
	})
	return result, cmp.Or(u.agreed(), err)
}

// Work is a collective that was started: what torch.distributed returns for async_op=True. T is
// what the call without Start returns. Its methods may be called from any goroutine.
type Work[T any] struct {
	done   chan struct{}
	failed error // known when done is closed

	once   sync.Once
	finish func() (T, error)
	result T
	err    error
}

// Done is closed when [Work.Wait] does not block any more. On a GPU that is at once: there a
// collective is a part of a stream, and Wait has the current stream wait for it, not the host.
func (w *Work[T]) Done() <-chan struct{} { return w.done }

// Err is why the work has failed; nil while it is under way and when it has succeeded.
func (w *Work[T]) Err() error {
	select {
	case <-w.done:
		return w.failed
	default:
		return nil
	}
}

// Wait returns what came of the collective when it is done, the same at every call. Results belong
// to the scope of the first call. Where ctx ends before, it returns the context's cause; the work
// continues, and Wait may be called again. A limit is context.WithTimeout.
func (w *Work[T]) Wait(ctx context.Context) (result T, err error) {
	select {
	case <-w.done:
	default:
		select {
		case <-w.done:
		case <-ctx.Done():
			return result, context.Cause(ctx)
		}
	}
	if w.failed != nil {
		return result, w.failed
	}
	w.once.Do(func() { w.result, w.err = w.finish() })
	return w.result, w.err
}

// finished is the work of a group of one.
func finished[T any](ctx context.Context, result T) (*Work[T], error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &Work[T]{done: make(chan struct{}), finish: func() (T, error) { return result, nil }}
	close(w.done)
	return w, nil
}

// begin starts a collective. Where ctx ends before it is done, the group does too.
func (c plan[T]) begin(ctx context.Context, g *dist.Group) (*Work[T], error) {
	u, err := c.launch(ctx, g)
	if err != nil {
		return nil, err
	}
	for i, t := range u.started {
		u.started[i] = t.Keep() // another goroutine uses it
	}
	w := &Work[T]{done: make(chan struct{})}
	w.finish = func() (result T, err error) {
		err = running(context.WithoutCancel(ctx), g, u.group, c.call, func(p *torch.ProcessGroup) {
			u.wait() // which the stream of this thread may have to do
			result = c.finish(p, u.started)
		})
		return result, cmp.Or(u.agreed(), err)
	}
	if len(u.started) == 0 || u.started[0].Device().IsCUDA() {
		close(w.done)
		return w, nil
	}
	go func() {
		err := running(ctx, g, u.group, c.call, func(*torch.ProcessGroup) { u.wait() })
		w.failed = cmp.Or(u.agreed(), err)
		close(w.done)
	}()
	return w, nil
}

// StartAllReduce starts what [AllReduce] does, and returns at once. Until Wait nobody may use the
// tensors, which are its result. Works end in any order; all processes start them in one order.
func StartAllReduce(ctx context.Context, g *dist.Group, op dist.Op, ts ...torch.Tensor) (*Work[[]torch.Tensor], error) {
	c, err := allReduce(op, ts)
	if err != nil {
		return nil, err
	}
	if g.World() == 1 || len(ts) == 0 {
		return finished(ctx, ts)
	}
	return c.begin(ctx, g)
}

// StartBroadcast starts what [Broadcast] does: see [StartAllReduce].
func StartBroadcast(ctx context.Context, g *dist.Group, root int, ts ...torch.Tensor) (*Work[[]torch.Tensor], error) {
	if err := checkRoot(g, root); err != nil {
		return nil, err
	}
	if g.World() == 1 || len(ts) == 0 {
		return finished(ctx, ts)
	}
	return plan[[]torch.Tensor]{
		call: broadcastCall(root, ts),
		start: func(p *torch.ProcessGroup) []torch.Tensor {
			return eachFlat(ts, func(flat torch.Tensor) torch.Tensor {
				return torch.Call("_c10d_functional::broadcast_", flat, root, p.Name())[0]
			})
		},
		finish: func(_ *torch.ProcessGroup, done []torch.Tensor) []torch.Tensor {
			unflatten(ts, done)
			return ts
		},
	}.begin(ctx, g)
}

// StartAllGather starts what [AllGather] does: see [StartAllReduce].
func StartAllGather(ctx context.Context, g *dist.Group, t torch.Tensor) (*Work[[]torch.Tensor], error) {
	if g.World() == 1 {
		return finished(ctx, []torch.Tensor{t})
	}
	c, err := allGather(ctx, g, t)
	if err != nil {
		return nil, err
	}
	return c.begin(ctx, g)
}

// StartReduceScatter starts what [ReduceScatter] does: see [StartAllReduce].
func StartReduceScatter(ctx context.Context, g *dist.Group, op dist.Op, t torch.Tensor) (*Work[torch.Tensor], error) {
	c, err := reduceScatter(g, op, t)
	if err != nil {
		return nil, err
	}
	if g.World() == 1 {
		return finished(ctx, t.Detach().Clone().Keep())
	}
	return c.begin(ctx, g)
}

// StartAllToAll starts what [AllToAll] does: see [StartAllReduce].
func StartAllToAll(ctx context.Context, g *dist.Group, parts []torch.Tensor) (*Work[[]torch.Tensor], error) {
	if err := checkParts(g, parts); err != nil {
		return nil, err
	}
	if g.World() == 1 {
		return finished(ctx, []torch.Tensor{parts[0].Detach().Clone().Keep()})
	}
	c, err := allToAll(ctx, g, parts)
	if err != nil {
		return nil, err
	}
	return c.begin(ctx, g)
}
