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
	part                   string       // what errors call it, if Split made it
	parent                 *peer        // nil: this is rank 0
	children               []*peer      // those whose parent this process is
	addresses              []string     // of the processes' machines, by rank
	coordinator            *coordinator // of rank 0
	checked, fake          bool         // Options.Checked, Fake

	calls sync.Mutex // held while a call is started, or told to the others

	mu       sync.Mutex
	call     uint64         // number of the last call
	underWay []*pendingCall // the calls that are not over, the oldest first
	failed   *failure       // why there are no more calls
	done     chan struct{}  // closed when the others have been told of it
	closed   chan struct{}  // closed when the connections are, too
	gone     int            // the first process that has left; -1: none
	left     chan struct{}  // closed with it
}

func newGroup(rank, localRank, world int, timeout time.Duration) *Group {
	g := &Group{rank: rank, localRank: localRank, world: world, timeout: timeout, addresses: []string{"127.0.0.1"},
		done: make(chan struct{}), closed: make(chan struct{}), gone: -1, left: make(chan struct{})}
	if rank == 0 {
		g.coordinator = &coordinator{g: g, lastCall: make([]uint64, world), lastHeard: make([]string, world)}
	}
	return g
}

// peers are the neighbours in the tree.
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

// leave ends the group of this process; the calls that are over have been made by all.
func (g *Group) leave(reason error) {
	g.fail(&failure{Peer: -1, err: reason}, header{kind: kindLeave, rank: uint32(g.rank), over: g.over()}, nil, nil)
}

// fail ends the group for a reason, unless it has ended, and tells the neighbours. reader is the
// one whose goroutine calls; nil: none.
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
			<-p.ended // the deadline of its connection sees to it
		}
		_ = p.conn.Close()
	}
	close(g.closed)
}

// abort is fail with the reason told to all.
func (g *Group) abort(f *failure, reader *peer) {
	f.By = g.rank
	f.Kind, f.Text = kindOf(f.err), f.err.Error()
	payload, err := json.Marshal(f)
	if err != nil {
		panic(err) // strings and numbers
	}
	g.fail(f, header{kind: kindAbort, rank: uint32(g.rank)}, payload, reader)
}

// failure is why the group has failed, as an error of a call; nil while it works. It waits until the
// others have been told, for who sees the error may exit.
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

// lost is called when the connection to a neighbour has ended without a farewell.
func (g *Group) lost(p *peer, err error) {
	g.abort(&failure{Peer: p.rank, Heard: p.lastCall(), err: err}, p)
}

// take does with a message of a neighbour what there is to do: most go up or down the tree.
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
			g.coordinator.over(f.over) // first: the others look at who has left
		}
		g.hasLeft(int(f.rank))
		for _, p := range g.peers() {
			if p != from {
				_ = p.send(f.header) // it may have left before
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

// pass sends a message on.
func (g *Group) pass(f *frame, reader *peer, to ...*peer) {
	for _, p := range to {
		if err := p.send(f.header, f.payload); err != nil {
			select { // the reader knows more, if the process has told why
			case <-p.ended:
			case <-time.After(time.Second):
			}
			g.abort(&failure{Peer: p.rank, Heard: p.lastCall(), err: fmt.Errorf("%w (%w)", ErrPeerLost, err)}, reader)
			return
		}
	}
}

// hasLeft takes note of a process that has closed its group.
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

// whoLeft is the first process that has closed its group; -1: none has.
func (g *Group) whoLeft() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.gone
}
