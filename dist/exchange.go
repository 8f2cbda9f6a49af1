package dist

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// made is a call that this process has made.
type made struct {
	g      *Group
	call   uint64
	name   string        // as errors show it
	answer chan []byte   // what comes of it
	ended  chan struct{} // closed when that has come, or the group has failed meanwhile
	unset  []func() bool // its limits
}

// exchange makes one call: what this process has to add goes to rank 0, and the answer comes back
// when all have made the same call. text is what others see of it.
func (g *Group) exchange(ctx context.Context, h header, text string, part []byte) ([]byte, error) {
	m, err := g.start(ctx, h, text, part, nil)
	if err != nil {
		return nil, err
	}
	return m.wait()
}

// start begins a call. Others may be started before its answer comes; then, if it is not nil, runs
// before any other.
func (g *Group) start(ctx context.Context, h header, text string, part []byte, then func()) (*made, error) {
	g.calls.Lock()
	defer g.calls.Unlock()
	h.kind, h.rank, h.call, h.name = kindCall, uint32(g.rank), g.call+1, uint32(len(text))
	m := &made{g: g, call: h.call, name: named(text, h.call), answer: make(chan []byte, 1),
		ended: make(chan struct{})}
	if err := g.failure(m.name); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil { // nothing was sent, so the group is as it was
		return nil, &Error{Call: m.name, Rank: g.rank, Peer: -1, Err: err}
	}
	if rank := g.whoLeft(); rank >= 0 {
		g.abort(&failure{Peer: rank, err: ErrPeerLeft}, nil)
		return nil, g.failure(m.name)
	}
	g.call++
	// these act where a write is stuck, too: the farewell sets its deadline
	m.unset = []func() bool{
		context.AfterFunc(ctx, func() {
			g.abort(&failure{Peer: -1, Heard: m.name, err: context.Cause(ctx)}, nil)
		}),
		time.AfterFunc(g.timeout, func() { g.tooLate(h.call, m.ended) }).Stop,
	}
	g.waiting.Store(h.call, m)
	g.contribute(h, text, part)
	if then != nil {
		then()
	}
	return m, nil
}

// contribute sends what this process adds to a call.
func (g *Group) contribute(h header, text string, part []byte) {
	own := &frame{h, append([]byte(text), part...)}
	switch {
	case g.fake:
		g.answer(h.call, combine(slices.Repeat([]*frame{own}, g.world)))
	case g.judge != nil:
		g.judge.take(own, nil)
	default:
		g.pass(own, nil, g.parent)
	}
}

// answer gives a call what came of it. The answers to calls of other processes are none of ours.
func (g *Group) answer(call uint64, b []byte) {
	if found, ok := g.waiting.Load(call); ok {
		m := found.(*made)
		m.end() // first: who waits may end the context
		m.answer <- b
	}
}

// end lifts the limits of a call.
func (m *made) end() {
	if _, ok := m.g.waiting.LoadAndDelete(m.call); !ok {
		return
	}
	close(m.ended)
	for _, unset := range m.unset {
		unset()
	}
}

// wait returns the answer to a call.
func (m *made) wait() ([]byte, error) {
	g := m.g
	var gone <-chan struct{}
	if g.parent != nil {
		gone = g.parent.ended
	}
	select {
	case b := <-m.answer:
		return b, nil
	case <-gone: // it has left: one that was lost has ended the group
	case <-g.done:
	}
	select { // what has come counts, whatever has happened since
	case b := <-m.answer:
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
	m.end()
	return nil, g.failure(m.name)
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
