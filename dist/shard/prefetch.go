package shard

import (
	"context"
	"slices"

	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/torch"
)

// prefetcher knows which unit of a model computes next, whose parameters are gathered while one
// computes: in a forward pass the one that came next in the pass before, in a backward pass the one
// that came before. All processes run the same units in the same order, so all foresee the same;
// where it does not come, what was gathered is dropped by all. No more than two units are whole.
type prefetcher struct {
	pass       *pass // the one under way
	previous   []*Unit
	backward   bool  // units compute again
	prefetched *Unit // is being gathered; nil: none is

	trace func(event string, u *Unit) // of tests
}

// pass is the units that a forward pass has run, in their order.
type pass struct{ runs []*Unit }

func (s *prefetcher) traceEvent(event string, u *Unit) {
	if s != nil && s.trace != nil {
		s.trace(event, u)
	}
}

// begin is called before a forward pass.
func (s *prefetcher) begin() {
	s.previous, s.pass, s.backward = s.pass.runs, &pass{}, false
}

// enter notes a run whose gradients are wanted, and returns what finds the unit after it when the
// run computes: first in the forward pass and then in the backward pass.
func (s *prefetcher) enter(u *Unit) (next func() *Unit) {
	if s == nil || s.backward || !torch.IsGradEnabled() {
		return func() *Unit { return nil }
	}
	p, place, again := s.pass, len(s.pass.runs), false
	p.runs = append(p.runs, u)
	return func() *Unit {
		switch previous := s.previous; {
		case again && place > 0:
			return p.runs[place-1]
		case !again && place+1 < len(previous) && slices.Equal(previous[:place+1], p.runs):
			again = true
			return previous[place+1]
		}
		again = true
		return nil
	}
}

// prefetch begins to gather the parameters of a unit, unless u is nil.
func (s *prefetcher) prefetch(u *Unit) {
	if u == nil || u.group.World() == 1 {
		return
	}
	s.prefetched = u
	for _, r := range u.rows {
		var err error
		r.prefetched, err = r.start(u.ctx, r.mine)
		must("shard.Unit.Run", err)
		r.prefetched.Keep()
	}
	s.traceEvent("gather", u)
}

// expect drops what was gathered for another unit than the one that computes now; nil: for any.
func (s *prefetcher) expect(u *Unit) {
	if s == nil || s.prefetched == nil || s.prefetched == u {
		return
	}
	s.traceEvent("drop", s.prefetched)
	for _, r := range s.prefetched.rows {
		if r.prefetched.Defined() {
			_, _ = r.awaitGather(context.Background()) // who has failed meanwhile says so in the next call
		}
	}
	s.prefetched = nil
}

// start begins to gather the row of the parts of several processes. arrived waits for it.
func (f *flat) start(ctx context.Context, mine torch.Tensor) (row torch.Tensor, err error) {
	err = ddp.Collective(ctx, f.group, f.gathering(), func(p *torch.ProcessGroup) {
		row = torch.Call("_c10d_functional::all_gather_into_tensor", mine.Detach().Contiguous(), f.group.World(),
			p.Name())[0]
	})
	return row, err
}

// awaitGather waits for the row that was started, which then is the caller's.
func (r *unitRow) awaitGather(ctx context.Context) (row torch.Tensor, err error) {
	p, err := ddp.ProcessGroup(ctx, r.group)
	if err != nil {
		return row, err
	}
	stop := context.AfterFunc(ctx, func() { p.Abort(context.Cause(ctx).Error()) })
	defer stop()
	err = torch.Try(func() { row = torch.Call("_c10d_functional::wait_tensor", r.prefetched)[0] })
	r.prefetched.Free()
	r.prefetched = torch.Tensor{}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		err = r.group.Fail(r.gathering(), err)
	}
	return row, err
}
