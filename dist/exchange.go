package dist

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// exchange makes one call: what this process has to add goes to rank 0, and the answer comes back
// when all have made the same call. text is what others see of it.
func (g *Group) exchange(ctx context.Context, h header, text string, part []byte) ([]byte, error) {
	g.calls.Lock()
	defer g.calls.Unlock()
	h.kind, h.rank, h.call, h.name = kindCall, uint32(g.rank), g.call+1, uint32(len(text))
	name := named(text, h.call)
	if err := g.failure(name); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil { // nothing was sent, so the group is as it was
		return nil, &Error{Call: name, Rank: g.rank, Peer: -1, Err: err}
	}
	if rank := g.whoLeft(); rank >= 0 {
		g.abort(&failure{Peer: rank, err: ErrPeerLeft}, nil)
		return nil, g.failure(name)
	}
	g.call++
	ended := make(chan struct{})
	defer close(ended)
	// these act where a write is stuck, too: the farewell sets its deadline
	cancelled := context.AfterFunc(ctx, func() {
		g.abort(&failure{Peer: -1, Heard: name, err: context.Cause(ctx)}, nil)
	})
	defer cancelled()
	late := time.AfterFunc(g.timeout, func() { g.tooLate(h.call, ended) })
	defer late.Stop()
	if err := g.contribute(h, text, part); err != nil {
		return nil, err
	}
	return g.await(name)
}

// contribute sends what this process adds to a call.
func (g *Group) contribute(h header, text string, part []byte) error {
	if g.fake {
		own := &frame{h, append([]byte(text), part...)}
		g.answer(combine(slices.Repeat([]*frame{own}, g.world)))
		return nil
	}
	if g.judge != nil {
		g.judge.take(&frame{h, append([]byte(text), part...)}, nil)
		return nil
	}
	g.pass(&frame{h, append([]byte(text), part...)}, nil, g.parent)
	return nil
}

// await returns the answer to a call.
func (g *Group) await(name string) ([]byte, error) {
	var gone <-chan struct{}
	if g.parent != nil {
		gone = g.parent.ended
	}
	select {
	case b := <-g.answers:
		return b, nil
	case <-gone: // it has left: one that was lost has ended the group
	case <-g.done:
	}
	select { // what has come counts, whatever has happened since
	case b := <-g.answers:
		return b, nil
	default:
	}
	if g.parent != nil {
		select {
		case <-g.done:
		default:
			g.abort(&failure{Peer: g.parent.rank, Heard: g.parent.lastCall(), err: ErrPeerLeft}, nil)
		}
	}
	<-g.done // of an end that another goroutine has begun
	return nil, g.failure(name)
}

// verdict is how long rank 0 may take to say who keeps the others waiting.
const verdict = 2 * time.Second

// tooLate is called when a call has taken Options.Timeout. Rank 0 knows who has not made it.
func (g *Group) tooLate(call uint64, ended <-chan struct{}) {
	if g.judge != nil {
		g.judge.late(call, nil)
		return
	}
	go func() { _ = g.parent.send(header{kind: kindLate, rank: uint32(g.rank), call: call}) }()
	select {
	case <-ended:
	case <-g.done:
	case <-time.After(verdict):
		g.abort(&failure{Peer: g.parent.rank, Heard: g.parent.lastCall(), err: ErrTimeout}, nil)
	}
}

// Fail ends the group for an error in a call that went past it, and returns the first reason that
// any process has had, as an error of this call: where a process is gone, both engines notice, and
// the group knows which one it was.
func (g *Group) Fail(call string, err error) error {
	select {
	case <-g.done:
	case <-time.After(time.Second):
		f := &failure{Peer: -1, Heard: call, err: err}
		if rank := g.whoLeft(); rank >= 0 {
			f = &failure{Peer: rank, err: fmt.Errorf("%w (%w)", ErrPeerLeft, err)}
		}
		g.abort(f, nil)
	}
	return g.failure(call)
}
