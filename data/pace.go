package data

import (
	"sync/atomic"
	"time"
)

// quick is the time below which a batch costs more to hand over from another goroutine than to make.
const quick = 50 * time.Microsecond

// settled is how many quick batches, more than others, come before they are made where they are
// used; as many others take that back.
const settled = 8

// pace decides whether batches are made by goroutines ahead of their use or in line with it.
type pace struct {
	never bool         // workers were asked for, or samples may take any time
	score atomic.Int32 // quick batches, less the others: from 0 to settled
	lined atomic.Bool
}

func (p *pace) inLine() bool { return p.lined.Load() }

// begin is when a batch was begun, if that matters.
func (p *pace) begin() (t time.Time) {
	if !p.never {
		t = time.Now()
	}
	return t
}

// end takes note of a batch that is made. Where several goroutines do so at once a note may be lost,
// which does no harm.
func (p *pace) end(began time.Time) {
	if p.never {
		return
	}
	score := p.score.Load()
	if time.Since(began) < quick {
		score = min(score+1, settled)
	} else {
		score = max(score-1, 0)
	}
	p.score.Store(score)
	switch score {
	case settled:
		p.lined.Store(true)
	case 0:
		p.lined.Store(false)
	}
}

// inMemory tells whether the samples of a data set lie in memory, so that to have one takes no time
// that is worth a goroutine. A type of somebody else's may do anything.
func inMemory[S any](d Dataset[S]) bool {
	switch d := d.(type) {
	case Slice[S]:
		return true
	case subset[S]:
		return inMemory(d.d)
	case view[S]:
		return inMemory(d.d)
	case concatenated[S]:
		for _, one := range d.sets {
			if !inMemory(one) {
				return false
			}
		}
		return true
	case interface{ inMemory() bool }:
		return d.inMemory()
	}
	return false
}
