package dist

import (
	"slices"
	"sync"
)

// coordinator is the part of rank 0 that serves the whole group: it collects the processes'
// contributions to each call, checks that all make the same calls, and knows which process keeps
// the others waiting.
type coordinator struct {
	g *Group

	mu         sync.Mutex
	partial    []*partialCall // calls that some processes have not made yet, oldest first
	lastCall   []uint64       // number of the last call announced by each process
	completed  uint64         // calls up to this number are known to have been made by all processes
	lastHeard  []string       // the name of that call
	writingTo  *peer          // the child that an answer is being sent to; nil: none
	mismatched bool           // the processes have made different calls, so the group has failed

	answering sync.Mutex // held while an answer is sent
}

// partialCall is a call that some, but not all, processes have made.
type partialCall struct {
	call  uint64
	parts []*frame // by rank
	have  int
}

// addPart adds the contribution of one process to its call. reader is the neighbour whose read
// goroutine is calling; nil if rank 0 itself made the call.
func (c *coordinator) addPart(f *frame, reader *peer) {
	c.mu.Lock()
	rank := int(f.rank)
	if c.mismatched || rank >= len(c.lastCall) || f.call <= c.lastCall[rank] { // the last two are protocol violations
		c.mu.Unlock()
		return
	}
	c.lastCall[rank], c.lastHeard[rank] = f.call, f.named()
	c.forget(f.over)
	if f.call <= c.completed {
		c.mu.Unlock()
		return
	}
	t := c.findOrAdd(f.call)
	t.parts[rank] = f
	t.have++
	if other := t.different(f); other != nil {
		c.mismatched = true
		c.mu.Unlock()
		c.g.abort(&failure{Peer: -1, Calls: []rankCall{{int(other.rank), other.named()}, {rank, f.named()}},
			err: ErrMismatch}, reader)
		return
	}
	if t.have < len(t.parts) {
		gone := c.g.whoLeft()
		waits := gone >= 0 && t.parts[gone] == nil
		c.mu.Unlock()
		if waits {
			c.peerLeft(gone, reader)
		}
		return
	}
	c.partial = slices.DeleteFunc(c.partial, func(o *partialCall) bool { return o == t })
	c.mu.Unlock()
	c.answer(f.call, combine(t.parts), reader)
}

// forget drops the calls up to number over, which some process has completed: processes that still
// wait in them get the result elsewhere (see Group.StartQuiet). c.mu must be held.
func (c *coordinator) forget(over uint64) {
	c.completed = max(c.completed, over)
	for len(c.partial) > 0 && c.partial[0].call <= c.completed {
		c.partial = c.partial[1:]
	}
}

// findOrAdd returns the partial call with a number, creating it if needed. c.mu must be held.
func (c *coordinator) findOrAdd(call uint64) *partialCall {
	for _, t := range c.partial {
		if t.call == call {
			return t
		}
	}
	t := &partialCall{call: call, parts: make([]*frame, len(c.lastCall))}
	c.partial = append(c.partial, t)
	return t
}

// answer sends the result of a call to all processes.
func (c *coordinator) answer(call uint64, b []byte, reader *peer) {
	c.answering.Lock()
	f := &frame{header{kind: kindAnswer, call: call}, b}
	for _, p := range c.g.children { // before rank 0 itself, which may leave once it has the answer
		c.setWritingTo(p)
		c.g.pass(f, reader, p)
	}
	c.setWritingTo(nil)
	c.answering.Unlock()
	c.g.answer(call, b)
}

// different returns a contribution that belongs to another call than f does; nil if there is none.
func (t *partialCall) different(f *frame) *frame {
	for _, o := range t.parts {
		if o != nil && o != f {
			if o.same(f) {
				return nil // the parts before f agree with each other, so one comparison is enough
			}
			return o
		}
	}
	return nil
}

func (c *coordinator) setWritingTo(p *peer) {
	c.mu.Lock()
	c.writingTo = p
	c.mu.Unlock()
}

// over records that a process has completed all calls up to a number.
func (c *coordinator) over(call uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(call)
}

// peerLeft aborts the group if other processes wait for one that has left.
func (c *coordinator) peerLeft(rank int, reader *peer) {
	c.mu.Lock()
	waited := rank < len(c.lastCall) && len(c.partial) > 0 && c.lastCall[rank] < c.partial[len(c.partial)-1].call
	heard := c.lastHeard[min(rank, len(c.lastHeard)-1)]
	c.mu.Unlock()
	if waited {
		c.g.abort(&failure{Peer: rank, Heard: heard, err: ErrPeerLeft}, reader)
	}
}

// late aborts the group when a process has waited for too long in a call. It blames the first
// process missing from the oldest partial call.
func (c *coordinator) late(call uint64, reader *peer) {
	c.mu.Lock()
	missing, heard, current := -1, "", false
	if len(c.partial) > 0 && c.partial[0].call <= call {
		current = true
		for rank, p := range c.partial[0].parts {
			if p == nil {
				missing, heard = rank, c.lastHeard[rank]
				break
			}
		}
	}
	if c.writingTo != nil { // a child that does not read its answer holds up everything
		missing, heard, current = c.writingTo.rank, c.lastHeard[c.writingTo.rank], true
	}
	c.mu.Unlock()
	if current {
		c.g.abort(&failure{Peer: missing, Heard: heard, err: ErrTimeout}, reader)
	}
}
