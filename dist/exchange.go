package dist

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// pendingCall is a call that this process has started and that is not over.
type pendingCall struct {
	frame
	g          *Group
	ctx        context.Context
	name       string        // as errors show it: with its number
	answer     chan []byte   // receives the result
	ended      chan struct{} // closed when the call is over, with or without a result
	announced  bool          // the other processes have been told of it
	stopLimits []func() bool // stop the timeout and the watch on ctx, which start when it is announced
}

// newCall returns a call that is named text for the other processes and to which this process
// contributes part.
func (g *Group) newCall(ctx context.Context, h header, text string, part []byte) *pendingCall {
	h.kind, h.rank, h.name = kindCall, uint32(g.rank), uint32(len(text))
	return &pendingCall{frame: frame{h, append([]byte(text), part...)}, g: g, ctx: ctx, answer: make(chan []byte, 1),
		ended: make(chan struct{})}
}

// exchange makes one call: it sends this process's part to rank 0, and returns the result when all
// processes have made the same call.
func (g *Group) exchange(ctx context.Context, h header, text string, part []byte) ([]byte, error) {
	m := g.newCall(ctx, h, text, part)
	if err := m.start(false, nil); err != nil {
		return nil, err
	}
	return m.wait()
}

// start begins a call, and announces it unless it is quiet. Further calls may be started before it
// is answered; then, if not nil, runs before any of them.
func (m *pendingCall) start(quiet bool, then func()) error {
	g := m.g
	g.calls.Lock()
	defer g.calls.Unlock()
	m.call = g.call + 1
	m.name = m.named()
	if err := g.failure(m.name); err != nil {
		return err
	}
	if err := m.ctx.Err(); err != nil { // nothing was sent, so the group still works
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

// announce tells the other processes of all calls up to m that have not been announced. g.calls
// must be held, so that calls are announced in order.
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
		// These work even if a write is stuck, because farewell sets a write deadline.
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

// over returns the number of the last call that is over together with all calls before it.
func (g *Group) over() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.underWay) > 0 {
		return g.underWay[0].call - 1
	}
	return g.call
}

// answer delivers the result of a call. Results of calls that this process has not started, or has
// completed without an answer, are dropped.
func (g *Group) answer(call uint64, b []byte) {
	g.mu.Lock()
	i := slices.IndexFunc(g.underWay, func(u *pendingCall) bool { return u.call == call })
	if i < 0 {
		g.mu.Unlock()
		return
	}
	m := g.underWay[i]
	g.mu.Unlock()
	m.end() // before the answer is delivered: the caller may cancel the context then
	m.answer <- b
}

// end removes a call from those under way, and stops its timeout and its watch on ctx.
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

// wait returns the result of a call.
func (m *pendingCall) wait() ([]byte, error) {
	g := m.g
	var gone <-chan struct{}
	if g.parent != nil {
		gone = g.parent.ended
	}
	select {
	case b := <-m.answer:
		return b, nil
	case <-gone: // the parent has left; had its connection been lost, the group would have failed
	case <-g.done:
	}
	select { // a result that has arrived counts, even if the group has failed since
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
	m.end()
	return nil, g.failure(m.name)
}

// verdict is how long a process waits for rank 0 to say which process keeps the others waiting.
const verdict = 2 * time.Second

// timedOut is called when a call has taken Options.Timeout. Rank 0 knows which process has not made
// it.
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
		return err // no other process needs to know
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
