package ddp

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/torch"
)

// collective describes a collective: which operations it starts, and how their results are used.
type collective[T any] struct {
	call   string // its name in errors and for the comparison with the other processes
	quiet  bool   // it cannot succeed unless all processes make it: see dist.Group.StartQuiet
	start  func(p *torch.ProcessGroup) []operation
	finish func(p *torch.ProcessGroup, ts []torch.Tensor) T // called with the operations' results once they are done
}

// operation is an asynchronous operation in flight.
type operation struct {
	result torch.Tensor
	work   *torch.Work // nil for an operator of _c10d_functional, which is waited for through its result
}

// operator starts an operator of _c10d_functional.
func operator(name string, args ...any) operation {
	return operation{result: torch.Call("_c10d_functional::"+name, args...)[0]}
}

// wait waits until the operation is done.
func (o operation) wait() {
	if o.work != nil {
		o.work.Wait()
	} else {
		torch.Call("_c10d_functional::wait_tensor", o.result)
	}
}

// inFlight is a collective that has been started.
type inFlight struct {
	group   *torch.ProcessGroup
	started []operation
	agreed  func() error // see joined.announce
}

// launch starts a collective.
func (c collective[T]) launch(ctx context.Context, g *dist.Group) (u inFlight, err error) {
	j, err := processGroup(ctx, g)
	if err != nil {
		return u, err
	}
	u.group = j.ProcessGroup
	var failed error
	u.agreed, err = j.announce(ctx, g, c.call, func() {
		failed = runCall(ctx, g, u.group, c.call, func(p *torch.ProcessGroup) { u.started = c.start(p) })
	})
	if failed != nil {
		err = cmp.Or(u.agreed(), failed)
	}
	return u, err
}

// wait waits for the operations and returns their results.
func (u inFlight) wait() (results []torch.Tensor) {
	for _, o := range u.started {
		o.wait()
		results = append(results, o.result)
	}
	return results
}

// doneWithin waits for each operation for at most limit, and reports whether all are done.
func (u inFlight) doneWithin(limit time.Duration) bool {
	return !slices.ContainsFunc(u.started, func(o operation) bool { return o.work == nil || !o.work.WaitFor(limit) })
}

// run starts a collective and waits for it.
func (c collective[T]) run(ctx context.Context, g *dist.Group) (result T, err error) {
	j, err := processGroup(ctx, g)
	if err != nil {
		return result, err
	}
	if c.quiet && !j.compareFirst {
		return c.runQuietly(ctx, g, j.ProcessGroup)
	}
	u, err := c.launch(ctx, g)
	if err != nil {
		return result, err
	}
	err = runCall(ctx, g, u.group, c.call, func(p *torch.ProcessGroup) { result = c.finish(p, u.wait()) })
	return result, cmp.Or(u.agreed(), err)
}

// announceAfter is how long a collective may take before it is announced to the others. An
// announcement costs as much as the all-reduce of a small tensor.
const announceAfter = 5 * time.Millisecond

// runQuietly is like run, but announces the collective only if it takes long or fails. This is as
// safe as [joined.announce]: the messages carry a hash of the call's name, so it does not complete
// while the others do something else.
func (c collective[T]) runQuietly(ctx context.Context, g *dist.Group, p *torch.ProcessGroup) (result T, err error) {
	u := inFlight{group: p}
	var failed error
	call, err := g.StartQuiet(ctx, c.call, func() {
		failed = attempt(ctx, p, func() { u.started = c.start(p) })
	})
	if err != nil {
		return result, err
	}
	if failed == nil {
		failed = attempt(ctx, p, func() {
			if !u.doneWithin(announceAfter) {
				call.Tell()
			}
			result = c.finish(p, u.wait())
		})
	}
	if failed != nil {
		call.Tell()
		return result, g.Fail(c.call, failed)
	}
	call.Done()
	return result, nil
}

// Work is a collective that has been started, like the one torch.distributed returns for
// async_op=True. T is the result of the call without Start. Its methods may be called from any
// goroutine.
type Work[T any] struct {
	done   chan struct{}
	failed error // valid once done is closed

	once   sync.Once
	finish func() (T, error)
	result T
	err    error
}

// Done returns a channel that is closed when [Work.Wait] no longer blocks. On a GPU that is at
// once: a collective is part of a stream, and Wait makes the current stream wait for it, not the
// host.
func (w *Work[T]) Done() <-chan struct{} { return w.done }

// Err returns the reason why the work has failed, or nil if it is still running or has succeeded.
func (w *Work[T]) Err() error {
	select {
	case <-w.done:
		return w.failed
	default:
		return nil
	}
}

// Wait waits for the collective and returns its result, the same at every call. Results belong to
// the scope of the first call. If ctx ends first, Wait returns the context's cause; the work
// continues, and Wait may be called again. Use context.WithTimeout for a time limit.
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

// finished returns the completed work of a group of one process.
func finished[T any](ctx context.Context, result T) (*Work[T], error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &Work[T]{done: make(chan struct{}), finish: func() (T, error) { return result, nil }}
	close(w.done)
	return w, nil
}

// begin starts a collective. If ctx ends before it is done, the group fails.
func (c collective[T]) begin(ctx context.Context, g *dist.Group) (*Work[T], error) {
	u, err := c.launch(ctx, g)
	if err != nil {
		return nil, err
	}
	for i, o := range u.started {
		u.started[i].result = o.result.Keep() // another goroutine uses it
	}
	w := &Work[T]{done: make(chan struct{})}
	w.finish = func() (result T, err error) {
		err = runCall(context.WithoutCancel(ctx), g, u.group, c.call, func(p *torch.ProcessGroup) {
			result = c.finish(p, u.wait()) // the current stream of this thread may have to wait, too
		})
		return result, cmp.Or(u.agreed(), err)
	}
	if len(u.started) == 0 || u.started[0].result.Device().IsCUDA() {
		close(w.done)
		return w, nil
	}
	go func() {
		err := runCall(ctx, g, u.group, c.call, func(*torch.ProcessGroup) { u.wait() })
		w.failed = cmp.Or(u.agreed(), err)
		close(w.done)
	}()
	return w, nil
}

// StartAllReduce starts what [AllReduce] does, and returns at once. Until Wait, nobody may use the
// tensors, which are its result. Works may finish in any order, but all processes must start them
// in the same order.
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
	return collective[[]torch.Tensor]{
		call: broadcastCall(root, ts),
		start: func(p *torch.ProcessGroup) []operation {
			return eachFlat(ts, func(flat torch.Tensor) operation {
				return operator("broadcast_", flat, root, p.Name())
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
		return finished(ctx, []torch.Tensor{t.Detach().Clone().Keep()})
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
