package dist

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// made is a call that this process has made.
type pendingCall struct {
	frame
	g          *Group
	ctx        context.Context
	name       string        // as errors show it
	answer     chan []byte   // what comes of it
	ended      chan struct{} // closed when that has come, or the group has failed meanwhile
	announced  bool          // the others know of it
	stopLimits []func() bool // its limits, which begin then
}

// newCall is one of which the others see text, and to which this process adds part.
func (g *Group) newCall(ctx context.Context, h header, text string, part []byte) *pendingCall {
	h.kind, h.rank, h.name = kindCall, uint32(g.rank), uint32(len(text))
	return &pendingCall{frame: frame{h, append([]byte(text), part...)}, g: g, ctx: ctx, answer: make(chan []byte, 1),
		ended: make(chan struct{})}
}

// exchange makes one call: what this process has to add goes to rank 0, and the answer comes back
// when all have made the same call.
func (g *Group) exchange(ctx context.Context, h header, text string, part []byte) ([]byte, error) {
	m := g.newCall(ctx, h, text, part)
	if err := m.start(false, nil); err != nil {
		return nil, err
	}
	return m.wait()
}

// start begins a call, and tells the others of it unless it is quiet. More calls may be started
// before its answer comes; then, if it is not nil, runs before any of them.
func (m *pendingCall) start(quiet bool, then func()) error {
	g := m.g
	g.calls.Lock()
	defer g.calls.Unlock()
	m.call = g.call + 1
	m.name = m.named()
	if err := g.failure(m.name); err != nil {
		return err
	}
	if err := m.ctx.Err(); err != nil { // nothing was sent, so the group is as it was
		return &Error{Call: m.name, Rank: g.rank, Peer: -1, Err: err}
	}
	if rank := g.whoLeft(); rank >= 0 {
		g.abort(&failure{Peer: rank, err: ErrPeerLeft}, nil)
		return g.failure(m.name)
	}
	g.mu.Lock()
	g.call++
	g.underWay = append(g.underWay, m)
	g.mu.Unlock()
	if !quiet {
		g.announce(m)
	}
	if then != nil {
		then()
	}
	return nil
}

// tell has the others know of the calls up to m that are not over. g.calls is held: calls are told
// of in their order.
func (g *Group) announce(m *pendingCall) {
	for {
		g.mu.Lock()
		i := slices.IndexFunc(g.underWay, func(u *pendingCall) bool { return !u.announced && u.call <= m.call })
		if i < 0 {
			g.mu.Unlock()
			return
		}
		next := g.underWay[i]
		next.announced, next.over = true, g.underWay[0].call-1
		// these act where a write is stuck, too: the farewell sets its deadline
		next.stopLimits = []func() bool{
			context.AfterFunc(next.ctx, func() {
				g.abort(&failure{Peer: -1, Heard: next.name, err: context.Cause(next.ctx)}, nil)
			}),
			time.AfterFunc(g.timeout, func() { g.timedOut(next.call, next.ended) }).Stop,
		}
		g.mu.Unlock()
		switch {
		case g.fake:
			g.answer(next.call, combine(slices.Repeat([]*frame{&next.frame}, g.world)))
		case g.coordinator != nil:
			g.coordinator.addPart(&next.frame, nil)
		default:
			g.pass(&next.frame, nil, g.parent)
		}
	}
}

// over is the number of the last call of this process that is over, with all before it.
func (g *Group) over() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.underWay) > 0 {
		return g.underWay[0].call - 1
	}
	return g.call
}

// answer gives a call what came of it. The answers to calls of other processes are none of ours.
func (g *Group) answer(call uint64, b []byte) {
	g.mu.Lock()
	i := slices.IndexFunc(g.underWay, func(u *pendingCall) bool { return u.call == call })
	if i < 0 {
		g.mu.Unlock()
		return
	}
	m := g.underWay[i]
	g.mu.Unlock()
	m.end() // first: who waits may end the context
	m.answer <- b
}

// end has a call be over, and lifts its limits.
func (m *pendingCall) end() {
	m.g.mu.Lock()
	i := slices.Index(m.g.underWay, m)
	if i < 0 {
		m.g.mu.Unlock()
		return
	}
	m.g.underWay = slices.Delete(m.g.underWay, i, i+1)
	m.g.mu.Unlock()
	close(m.ended)
	for _, stop := range m.stopLimits {
		stop()
	}
}

// wait returns the answer to a call.
func (m *pendingCall) wait() ([]byte, error) {
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

// timedOut is called when a call has taken Options.Timeout. Rank 0 knows who has not made it.
func (g *Group) timedOut(call uint64, ended <-chan struct{}) {
	if g.coordinator != nil {
		g.coordinator.late(call, nil)
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

// Fail ends the group because of an error in a call made outside of it, and returns, as an error
// of that call, the first reason that any process had. If a process is gone, both engines notice,
// and the group knows which one it was.
func (g *Group) Fail(call string, err error) error {
	if g.World() == 1 {
		return err // there is nobody to tell
	}
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
