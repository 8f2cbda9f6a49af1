package dist

import (
	"slices"
	"sync"
)

// judge is what rank 0 does for all: it brings the parts of a call together, compares what the
// processes do, and knows who keeps the others waiting.
type judge struct {
	g *Group

	mu      sync.Mutex
	tallies []*tally // the calls under way, the oldest first
	made    []uint64 // the last call of which each process has told
	past    uint64   // calls up to this one have been made by all, as one has told for whom they are over
	heard   []string // the last of them
	sends   *peer    // whom an answer is being written to
	apart   bool     // the processes make different calls

	answering sync.Mutex // held while answers are written
}

// tally is a call that some processes have made, and not all.
type tally struct {
	call  uint64
	parts []*frame // by rank
	have  int
}

// take adds the part of a process to its call. reader is the neighbour by whose goroutine it came;
// nil: it is that of rank 0.
func (j *judge) take(f *frame, reader *peer) {
	j.mu.Lock()
	rank := int(f.rank)
	if j.apart || rank >= len(j.made) || f.call <= j.made[rank] { // the latter two no process of this module sends
		j.mu.Unlock()
		return
	}
	j.made[rank], j.heard[rank] = f.call, f.named()
	j.forget(f.over)
	if f.call <= j.past {
		j.mu.Unlock()
		return
	}
	t := j.tally(f.call)
	t.parts[rank] = f
	t.have++
	if other := t.different(f); other != nil {
		j.apart = true
		j.mu.Unlock()
		j.g.abort(&failure{Peer: -1, Calls: []calling{{int(other.rank), other.named()}, {rank, f.named()}},
			err: ErrMismatch}, reader)
		return
	}
	if t.have < len(t.parts) {
		gone := j.g.whoLeft()
		waits := gone >= 0 && t.parts[gone] == nil
		j.mu.Unlock()
		if waits {
			j.left(gone, reader)
		}
		return
	}
	j.tallies = slices.DeleteFunc(j.tallies, func(o *tally) bool { return o == t })
	j.mu.Unlock()
	j.answer(f.call, combine(t.parts), reader)
}

// forget drops the calls up to one that is over for a process: who waits in them has its answer from
// elsewhere. The mutex is held.
func (j *judge) forget(over uint64) {
	j.past = max(j.past, over)
	for len(j.tallies) > 0 && j.tallies[0].call <= j.past {
		j.tallies = j.tallies[1:]
	}
}

// tally is that of a call, the next one perhaps. The mutex is held.
func (j *judge) tally(call uint64) *tally {
	for _, t := range j.tallies {
		if t.call == call {
			return t
		}
	}
	t := &tally{call: call, parts: make([]*frame, len(j.made))}
	j.tallies = append(j.tallies, t)
	return t
}

// answer tells all processes what came of a call.
func (j *judge) answer(call uint64, b []byte, reader *peer) {
	j.answering.Lock()
	f := &frame{header{kind: kindAnswer, call: call}, b}
	for _, p := range j.g.children { // before rank 0 itself, which may leave then
		j.setSends(p)
		j.g.pass(f, reader, p)
	}
	j.setSends(nil)
	j.answering.Unlock()
	j.g.answer(call, b)
}

// different is a part of another call than f belongs to.
func (t *tally) different(f *frame) *frame {
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

func (j *judge) setSends(p *peer) {
	j.mu.Lock()
	j.sends = p
	j.mu.Unlock()
}

// over takes note of calls that are over for a process.
func (j *judge) over(call uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.forget(call)
}

// left ends the group if others wait for a process that has left.
func (j *judge) left(rank int, reader *peer) {
	j.mu.Lock()
	waited := rank < len(j.made) && len(j.tallies) > 0 && j.made[rank] < j.tallies[len(j.tallies)-1].call
	heard := j.heard[min(rank, len(j.heard)-1)]
	j.mu.Unlock()
	if waited {
		j.g.abort(&failure{Peer: rank, Heard: heard, err: ErrPeerLeft}, reader)
	}
}

// late ends the group when a process has waited too long in a call, and names the one that has not
// made it, or the oldest before it.
func (j *judge) late(call uint64, reader *peer) {
	j.mu.Lock()
	missing, heard, current := -1, "", false
	if len(j.tallies) > 0 && j.tallies[0].call <= call {
		current = true
		for rank, p := range j.tallies[0].parts {
			if p == nil {
				missing, heard = rank, j.heard[rank]
				break
			}
		}
	}
	if j.sends != nil { // it takes no answer
		missing, heard, current = j.sends.rank, j.heard[j.sends.rank], true
	}
	j.mu.Unlock()
	if current {
		j.g.abort(&failure{Peer: missing, Heard: heard, err: ErrTimeout}, reader)
	}
}
