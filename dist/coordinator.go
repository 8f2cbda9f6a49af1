package dist

import (
	"slices"
	"sync"
)

// coordinator is what rank 0 does for all: it brings the parts of a call together, compares what the
// processes do, and knows who keeps the others waiting.
type coordinator struct {
	g *Group

	mu         sync.Mutex
	partial    []*partialCall // the calls under way, the oldest first
	lastCall   []uint64       // the last call of which each process has told
	completed  uint64         // calls up to this one have been made by all, as one has told for whom they are over
	lastHeard  []string       // the last of them
	writingTo  *peer          // whom an answer is being written to
	mismatched bool           // the processes make different calls

	answering sync.Mutex // held while answers are written
}

// partialCall is a call that some processes have made, and not all.
type partialCall struct {
	call  uint64
	parts []*frame // by rank
	have  int
}

// take adds the part of a process to its call. reader is the neighbour by whose goroutine it came;
// nil: it is that of rank 0.
func (c *coordinator) addPart(f *frame, reader *peer) {
	c.mu.Lock()
	rank := int(f.rank)
	if c.mismatched || rank >= len(c.lastCall) || f.call <= c.lastCall[rank] { // the latter two no process of this module sends
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

// forget drops the calls up to one that is over for a process: who waits in them has its answer from
// elsewhere. The mutex is held.
func (c *coordinator) forget(over uint64) {
	c.completed = max(c.completed, over)
	for len(c.partial) > 0 && c.partial[0].call <= c.completed {
		c.partial = c.partial[1:]
	}
}

// findOrAdd is that of a call, the next one perhaps. The mutex is held.
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

// answer tells all processes what came of a call.
func (c *coordinator) answer(call uint64, b []byte, reader *peer) {
	c.answering.Lock()
	f := &frame{header{kind: kindAnswer, call: call}, b}
	for _, p := range c.g.children { // before rank 0 itself, which may leave then
		c.setWritingTo(p)
		c.g.pass(f, reader, p)
	}
	c.setWritingTo(nil)
	c.answering.Unlock()
	c.g.answer(call, b)
}

// different is a part of another call than f belongs to.
func (t *partialCall) different(f *frame) *frame {
	for _, o := range t.parts {
		if o != nil && o != f {
			if o.same(f) {
				return nil // all before were the same
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

// over takes note of calls that are over for a process.
func (c *coordinator) over(call uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(call)
}

// left ends the group if others wait for a process that has left.
func (c *coordinator) peerLeft(rank int, reader *peer) {
	c.mu.Lock()
	waited := rank < len(c.lastCall) && len(c.partial) > 0 && c.lastCall[rank] < c.partial[len(c.partial)-1].call
	heard := c.lastHeard[min(rank, len(c.lastHeard)-1)]
	c.mu.Unlock()
	if waited {
		c.g.abort(&failure{Peer: rank, Heard: heard, err: ErrPeerLeft}, reader)
	}
}

// late ends the group when a process has waited too long in a call, and names the one that has not
// made it, or the oldest before it.
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
	if c.writingTo != nil { // it takes no answer
		missing, heard, current = c.writingTo.rank, c.lastHeard[c.writingTo.rank], true
	}
	c.mu.Unlock()
	if current {
		c.g.abort(&failure{Peer: missing, Heard: heard, err: ErrTimeout}, reader)
	}
}
