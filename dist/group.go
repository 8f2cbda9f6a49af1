package dist

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// Group is the group of processes of a run, as seen by one of them. All processes must make the
// same calls in the same order, each from one goroutine at a time. A nil Group is a single
// process.
//
// The connections form a tree. Rank 0 is its root, the first process of every other machine is
// connected to rank 0, and the remaining processes of a machine to the first one there. What a
// process contributes to a call is sent up to rank 0, and the result is sent down.
type Group struct {
	rank, localRank, world int
	timeout                time.Duration
	part                   string       // prefix of errors, if Split made the group
	parent                 *peer        // nil on rank 0
	children               []*peer      // those whose parent this process is
	addresses              []string     // of each rank's machine
	coordinator            *coordinator // on rank 0 only
	checked, fake          bool         // Options.Checked, Options.Fake

	calls sync.Mutex // held while a call is started or announced

	mu       sync.Mutex
	call     uint64         // number of the last call started
	underWay []*pendingCall // calls started and not over, oldest first
	failed   *failure       // nil while the group works
	done     chan struct{}  // closed after failed is set and the other processes have been told
	closed   chan struct{}  // closed when the connections are closed, too
	gone     int            // the first process that has left; -1: none has
	left     chan struct{}  // closed when gone is set
}

func newGroup(rank, localRank, world int, timeout time.Duration) *Group {
	g := &Group{rank: rank, localRank: localRank, world: world, timeout: timeout, addresses: []string{"127.0.0.1"},
		done: make(chan struct{}), closed: make(chan struct{}), gone: -1, left: make(chan struct{})}
	if rank == 0 {
		g.coordinator = &coordinator{g: g, lastCall: make([]uint64, world), lastHeard: make([]string, world)}
	}
	return g
}

// peers returns the neighbours in the tree.
func (g *Group) peers() []*peer {
	if g.parent == nil {
		return g.children
	}
	return append([]*peer{g.parent}, g.children...)
}

// Rank returns the number of this process, from 0 to World-1. The main process is 0.
func (g *Group) Rank() int {
	if g == nil {
		return 0
	}
	return g.rank
}

// LocalRank returns the number of this process among those of its machine.
func (g *Group) LocalRank() int {
	if g == nil {
		return 0
	}
	return g.localRank
}

// World returns the number of processes.
func (g *Group) World() int {
	if g == nil {
		return 1
	}
	return g.world
}

// Main reports whether this is the main process, rank 0.
func (g *Group) Main() bool { return g.Rank() == 0 }

// Done returns a channel that is closed when the group has failed or was closed, for loops that
// need to know before their next call.
func (g *Group) Done() <-chan struct{} {
	if g == nil {
		return nil
	}
	return g.done
}

// Err returns the reason why the group has failed, or nil while it works.
func (g *Group) Err() error {
	if g == nil {
		return nil
	}
	if e := g.failure("between two calls"); e != nil {
		return e
	}
	return nil
}

// Close leaves the group. The other processes continue until their next call, which needs this
// process. If the group has failed, Close waits until the others know why, for at most a few
// seconds: a process that exits earlier may take its reason with it, and is blamed itself. A second
// Close does nothing.
func (g *Group) Close() error {
	if g == nil {
		return nil
	}
	g.leave(ErrClosed)
	<-g.closed
	return nil
}

// leave ends the group on this process only. The message says which calls this process has
// completed, because all processes have made those.
func (g *Group) leave(reason error) {
	g.fail(&failure{Peer: -1, err: reason}, header{kind: kindLeave, rank: uint32(g.rank), over: g.over()}, nil, nil)
}

// fail ends the group with a reason, unless it has ended already, and tells the neighbours. reader
// is the neighbour whose read goroutine is calling, and which can therefore not be waited for; nil:
// none.
func (g *Group) fail(f *failure, h header, payload []byte, reader *peer) {
	g.mu.Lock()
	if g.failed != nil {
		g.mu.Unlock()
		return
	}
	g.failed = f
	g.mu.Unlock()
	var told sync.WaitGroup
	for _, p := range g.peers() {
		told.Go(func() { p.farewell(h, payload) })
	}
	told.Wait()
	close(g.done)
	for _, p := range g.peers() {
		if p != reader {
			<-p.ended // farewell has set a read deadline, so this ends
		}
		_ = p.conn.Close()
	}
	close(g.closed)
}

// abort is fail with a reason that is sent to all processes.
func (g *Group) abort(f *failure, reader *peer) {
	f.By = g.rank
	f.Kind, f.Text = kindOf(f.err), f.err.Error()
	payload, err := json.Marshal(f)
	if err != nil {
		panic(err) // cannot happen: f holds only strings and numbers
	}
	g.fail(f, header{kind: kindAbort, rank: uint32(g.rank)}, payload, reader)
}

// failure returns why the group has failed, as an error of a call, or nil while it works. It waits
// until the others have been told, because the caller may exit when it sees the error.
func (g *Group) failure(call string) *Error {
	g.mu.Lock()
	failed := g.failed
	g.mu.Unlock()
	if failed == nil {
		return nil
	}
	<-g.done
	e := failed.in(call, g.rank)
	e.Part = g.part
	return e
}

// lost is called when the connection to a neighbour has ended without a message that says why.
func (g *Group) lost(p *peer, err error) {
	g.abort(&failure{Peer: p.rank, Heard: p.lastCall(), err: err}, p)
}

// handle processes a message from a neighbour. Most messages are passed up or down the tree.
func (g *Group) handle(from *peer, f *frame) {
	select {
	case <-g.done:
		return
	default:
	}
	switch f.kind {
	case kindCall:
		if g.coordinator != nil {
			g.coordinator.addPart(f, from)
		} else {
			g.pass(f, from, g.parent)
		}
	case kindLate:
		if g.coordinator != nil {
			g.coordinator.late(f.call, from)
		} else {
			g.pass(f, from, g.parent)
		}
	case kindAnswer:
		g.pass(f, from, g.children...)
		g.answer(f.call, f.payload)
	case kindLeave:
		if g.coordinator != nil {
			g.coordinator.over(f.over) // before hasLeft, after which calls blame the process that has left
		}
		g.hasLeft(int(f.rank))
		for _, p := range g.peers() {
			if p != from {
				_ = p.send(f.header) // an error is ignored: the peer may have left, too
			}
		}
		if g.coordinator != nil {
			g.coordinator.peerLeft(int(f.rank), from)
		}
	case kindAbort:
		r := &failure{Peer: -1, err: ErrPeerLost}
		if err := json.Unmarshal(f.payload, r); err != nil {
			r.Text = fmt.Sprintf("it has failed, and its reason cannot be read: %v", err)
		}
		told := &reported{rank: r.By, text: r.Text}
		if r.Kind > 0 && r.Kind < len(kinds) {
			told.kind = kinds[r.Kind]
		}
		r.err = told
		g.fail(r, f.header, f.payload, from)
	}
}

// pass forwards a message.
func (g *Group) pass(f *frame, reader *peer, to ...*peer) {
	for _, p := range to {
		if err := p.send(f.header, f.payload); err != nil {
			select { // if the peer has said why it ends, its read goroutine reports the better reason
			case <-p.ended:
			case <-time.After(time.Second):
			}
			g.abort(&failure{Peer: p.rank, Heard: p.lastCall(), err: fmt.Errorf("%w (%w)", ErrPeerLost, err)}, reader)
			return
		}
	}
}

// hasLeft records that a process has closed its group.
func (g *Group) hasLeft(rank int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone < 0 {
		g.gone = rank
		close(g.left)
	}
}

// Left returns a channel that is closed when a process has closed its group. Data it sent before
// may still be in transit, so calls that started earlier may still complete.
func (g *Group) Left() <-chan struct{} { return g.left }

// whoLeft returns the first process that has closed its group, or -1 if none has.
func (g *Group) whoLeft() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.gone
}
