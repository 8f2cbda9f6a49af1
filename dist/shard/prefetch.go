package shard

import (
	"context"
	"slices"

	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/torch"
)

// prefetcher gathers the parameters of the next unit while the current one computes. It predicts
// the next unit: in a forward pass, the one that followed in the previous pass; in a backward pass,
// the one that ran before. All processes run the same units in the same order, so all make the same
// predictions, and drop what they gathered if the prediction was wrong. At most two units are whole
// at a time.
type prefetcher struct {
	pass       *pass // the current one
	previous   []*Unit
	backward   bool  // in a backward pass, which recomputes units
	prefetched *Unit // the unit that is being gathered; nil: none

	trace func(event string, u *Unit) // for tests
}

// pass records the units that a forward pass has run, in order.
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

// enter records a run with gradients. It returns a function that predicts the next unit, to be
// called when the unit computes: once in the forward pass, and again when it is recomputed in the
// backward pass.
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

// prefetch starts gathering the parameters of a unit, if u is not nil.
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

// expect drops what was gathered if it is for another unit than u, which computes next; u may be
// nil.
func (s *prefetcher) expect(u *Unit) {
	if s == nil || s.prefetched == nil || s.prefetched == u {
		return
	}
	s.traceEvent("drop", s.prefetched)
	for _, r := range s.prefetched.rows {
		if r.prefetched.Defined() {
			_, _ = r.awaitGather(context.Background()) // an error is returned by the next call
		}
	}
	s.prefetched = nil
}

// start starts gathering the flat tensor; awaitGather waits for it.
func (f *flat) start(ctx context.Context, mine torch.Tensor) (row torch.Tensor, err error) {
	err = ddp.Collective(ctx, f.group, f.gathering(), func(p *torch.ProcessGroup) {
		row = torch.Call("_c10d_functional::all_gather_into_tensor", mine.Detach().Contiguous(), f.group.World(),
			p.Name())[0]
	})
	return row, err
}

// awaitGather waits for the flat tensor and gives it to the caller.
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
