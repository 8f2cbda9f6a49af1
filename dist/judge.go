package dist

import "sync"

// judge is what rank 0 does for all: it brings the parts of a call together, compares what the
// processes do, and knows who keeps the others waiting.
type judge struct {
	g *Group

	mu    sync.Mutex
	parts []*frame // of the call under way, by rank
	have  int
	heard []string // the last call of each process
	sends *peer    // whom an answer is being written to
	over  bool     // the processes have come apart
}

// take adds the part of a process to the call under way. reader is the neighbour by whose goroutine
// it came; nil: it is that of rank 0.
func (j *judge) take(f *frame, reader *peer) {
	j.mu.Lock()
	rank := int(f.rank)
	if j.over || rank >= len(j.parts) || j.parts[rank] != nil { // the latter no process of this module sends
		j.mu.Unlock()
		return
	}
	j.parts[rank], j.heard[rank] = f, f.named()
	j.have++
	if other := j.different(f); other != nil {
		j.over = true
		j.mu.Unlock()
		j.g.abort(&failure{Peer: -1, Calls: []calling{{int(other.rank), other.named()}, {rank, f.named()}},
			err: ErrMismatch}, reader)
		return
	}
	if j.have < len(j.parts) {
		gone := j.g.whoLeft()
		waits := gone >= 0 && j.parts[gone] == nil
		j.mu.Unlock()
		if waits {
			j.left(gone, reader)
		}
		return
	}
	b := combine(j.parts)
	clear(j.parts)
	j.have = 0
	j.mu.Unlock()
	answer := &frame{header{kind: kindAnswer, call: f.call}, b}
	for _, p := range j.g.children { // before rank 0 itself, which may leave then
		j.setSends(p)
		j.g.pass(answer, reader, p)
	}
	j.setSends(nil)
	j.g.answer(b)
}

// different is a part of another call than f belongs to.
func (j *judge) different(f *frame) *frame {
	for _, o := range j.parts {
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

// left ends the group if a process has left that others wait for.
func (j *judge) left(rank int, reader *peer) {
	j.mu.Lock()
	waited := j.have > 0 && rank < len(j.parts) && j.parts[rank] == nil
	heard := j.heard[min(rank, len(j.heard)-1)]
	j.mu.Unlock()
	if waited {
		j.g.abort(&failure{Peer: rank, Heard: heard, err: ErrPeerLeft}, reader)
	}
}

// late ends the group when a process has waited too long in a call, and names the one that has not
// made it.
func (j *judge) late(call uint64, reader *peer) {
	j.mu.Lock()
	missing, heard := -1, ""
	for rank, p := range j.parts {
		if j.have > 0 && p == nil {
			missing, heard = rank, j.heard[rank]
			break
		}
	}
	current := j.have > 0 && j.callUnderWay() == call
	if j.sends != nil { // it takes no answer
		missing, heard, current = j.sends.rank, j.heard[j.sends.rank], true
	}
	j.mu.Unlock()
	if current {
		j.g.abort(&failure{Peer: missing, Heard: heard, err: ErrTimeout}, reader)
	}
}

func (j *judge) callUnderWay() uint64 {
	for _, p := range j.parts {
		if p != nil {
			return p.call
		}
	}
	return 0
}
