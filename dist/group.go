package dist

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Group is the processes of a run, as one of them sees it. All make the same calls in the same
// order, each from one goroutine at a time. A nil Group is one process alone.
type Group struct {
	rank, localRank, world int
	timeout                time.Duration
	part                   string  // what errors call it, if Split made it
	peers                  []*peer // by rank; nil at its own

	calls sync.Mutex // held during a call
	call  uint64     // number of the last call

	mu     sync.Mutex
	failed *Error        // why there are no more calls
	done   chan struct{} // closed with it

	leaving sync.Once
	left    chan struct{} // closed when a process has left
}

// Rank is the number of this process: 0 to World-1. The main process is 0.
func (g *Group) Rank() int {
	if g == nil {
		return 0
	}
	return g.rank
}

// LocalRank is its number among the processes of this machine.
func (g *Group) LocalRank() int {
	if g == nil {
		return 0
	}
	return g.localRank
}

// World is the number of processes.
func (g *Group) World() int {
	if g == nil {
		return 1
	}
	return g.world
}

// Main reports whether this is the main process, of rank 0.
func (g *Group) Main() bool { return g.Rank() == 0 }

// Done is closed when the group has failed or was closed: what a loop may watch that wants to know
// before its next call.
func (g *Group) Done() <-chan struct{} {
	if g == nil {
		return nil
	}
	return g.done
}

// Err is why the group has failed; nil while it works.
func (g *Group) Err() error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed == nil {
		return nil
	}
	return g.failed
}

// Close leaves the group. The others continue until they make a call that needs this process. A
// second Close does nothing.
func (g *Group) Close() error {
	if g == nil {
		return nil
	}
	g.fail(&Error{Call: "a call after Close", Rank: g.rank, Peer: -1, Err: ErrClosed}, header{kind: kindLeave}, nil,
		nil)
	return nil
}

// fail ends the group for a reason, unless it has ended, and tells the others. reader is the one
// whose goroutine calls; nil: none.
func (g *Group) fail(e *Error, h header, payload []byte, reader *peer) {
	g.mu.Lock()
	if g.failed != nil {
		g.mu.Unlock()
		return
	}
	e.Part = g.part
	g.failed = e
	g.mu.Unlock()
	var told sync.WaitGroup
	for _, p := range g.peers {
		if p != nil {
			told.Go(func() { p.farewell(h, payload) })
		}
	}
	told.Wait()
	close(g.done)
	for _, p := range g.peers {
		if p == nil {
			continue
		}
		if p != reader {
			<-p.ended // the deadline of its connection sees to it
		}
		_ = p.conn.Close()
	}
}

// abort is fail with the reason told to the others.
func (g *Group) abort(e *Error, reader *peer) {
	at := e.Peer
	if at < 0 {
		at = g.rank
	}
	text := e.Err.Error()
	if e.Peer < 0 {
		text = e.Call + ": " + text
	} else if e.PeerCall != "" {
		text += "; last heard of in " + e.PeerCall
	}
	g.fail(e, header{kind: kindAbort, phase: kindOf(e.Err), rank: uint32(at) + 1}, []byte(text), reader)
}

// lost is called when the connection to a process has ended without a farewell.
func (g *Group) lost(p *peer, err error) {
	g.abort(&Error{Call: "between two calls", Rank: g.rank, Peer: p.rank, PeerCall: p.lastCall(), Err: err}, p)
}

// aborted is called when a process has told why its group has failed.
func (g *Group) aborted(p *peer, f frame) {
	r := &reported{rank: p.rank, text: string(f.payload)}
	if int(f.phase) < len(kinds) {
		r.kind = kinds[f.phase]
	}
	g.fail(&Error{Call: "between two calls", Rank: g.rank, Peer: int(f.rank) - 1, Err: r}, f.header, f.payload, p)
}

// run makes one call. body sends and receives; its error ends the group.
func (g *Group) run(ctx context.Context, h header, body func(*call) error) error {
	g.calls.Lock()
	defer g.calls.Unlock()
	h.call = g.call + 1
	c := &call{g: g, h: h}
	if err := c.failure(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil { // nothing was sent, so the group is as it was
		return &Error{Call: h.String(), Rank: g.rank, Peer: -1, Err: err}
	}
	g.call++
	ctx, cancel := context.WithTimeoutCause(ctx, g.timeout, ErrTimeout)
	defer cancel()
	c.ctx = ctx
	stop := context.AfterFunc(ctx, func() { // also where a write is stuck, since the farewell sets its deadline
		e := &Error{Call: h.String(), Rank: g.rank, Peer: -1, Err: context.Cause(ctx)}
		if errors.Is(e.Err, ErrTimeout) { // the caller's own end is nobody else's fault
			e.Peer, e.PeerCall = c.waitingFor(), c.peerCall()
		}
		g.abort(e, nil)
	})
	defer stop()
	err := body(c)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		g.abort(e, nil)
	}
	if failure := c.failure(); failure != nil { // the first reason, which may be another one
		return failure
	}
	return err
}

// call is a call under way.
type call struct {
	g   *Group
	h   header
	ctx context.Context

	mu      sync.Mutex
	waiting *peer // the process whose message is waited for
}

// failure is why the group has failed, as an error of this call.
func (c *call) failure() error {
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	if c.g.failed == nil {
		return nil
	}
	e := *c.g.failed
	e.Call = c.h.String()
	return &e
}

func (c *call) waitingFor() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		return -1
	}
	return c.waiting.rank
}

func (c *call) peerCall() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		return ""
	}
	return c.waiting.lastCall()
}

func (c *call) wait(p *peer) {
	c.mu.Lock()
	c.waiting = p
	c.mu.Unlock()
}

// receive returns the next message of a process, which must be of this phase of this call.
func (c *call) receive(rank int, phase uint8) (frame, error) {
	p := c.g.peers[rank]
	c.wait(p)
	defer c.wait(nil)
	var f frame
	var ok bool
	select { // what has come counts, whatever has happened since
	case f, ok = <-p.frames:
	default:
		select {
		case f, ok = <-p.frames:
		case <-c.g.done:
			return f, c.failure()
		}
	}
	if !ok {
		if err := c.failure(); err != nil {
			return f, err
		}
		return f, &Error{Call: c.h.String(), Rank: c.g.rank, Peer: rank, PeerCall: p.lastCall(), Err: ErrPeerLeft}
	}
	want := c.h
	want.phase = phase
	if !f.same(want) {
		return f, &Error{Call: c.h.String(), Rank: c.g.rank, Peer: rank, Err: fmt.Errorf("%w: it is in %s", ErrMismatch,
			f.header)}
	}
	return f, nil
}

// send sends a message to every other process, or to those for which payload returns true, and
// returns what waits until they are written.
func (c *call) send(phase uint8, payload func(rank int) ([]byte, bool)) (wait func() error) {
	h := c.h
	h.phase = phase
	var writes sync.WaitGroup
	errs := make([]error, c.g.world)
	for rank, p := range c.g.peers {
		if p == nil {
			continue
		}
		b, wanted := payload(rank)
		if !wanted {
			continue
		}
		writes.Go(func() {
			if err := p.send(h, b); err != nil {
				select { // the reader knows more, if the process has told why
				case <-p.ended:
				case <-time.After(time.Second):
				}
				errs[rank] = &Error{Call: c.h.String(), Rank: c.g.rank, Peer: rank, PeerCall: p.lastCall(),
					Err: fmt.Errorf("%w (%w)", ErrPeerLost, err)}
			}
		})
	}
	return func() error {
		writes.Wait()
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		return nil
	}
}
