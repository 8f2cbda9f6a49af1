package data

import (
	"sync/atomic"
	"time"
)

// quick is the time below which making a batch costs less than passing it between goroutines.
const quick = 50 * time.Microsecond

// settled is the score from which batches are made in line with their use: this many more quick
// batches than slow ones. When the score is back at 0, workers make them again.
const settled = 8

// pace decides whether batches are made by workers, ahead of their use, or in line with it.
type pace struct {
	never bool         // never in line: Workers or SampleTimeout is set, or samples are not in memory
	score atomic.Int32 // quick batches minus slow ones, from 0 to settled
	lined atomic.Bool
}

func (p *pace) inLine() bool { return p.lined.Load() }

// begin returns the current time, if the batch about to be made is to be timed.
func (p *pace) begin() (t time.Time) {
	if !p.never {
		t = time.Now()
	}
	return t
}

// end records how long a batch took. If several goroutines call it at once, a record may be lost,
// which is harmless.
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

// inMemory reports whether the samples of a data set are in memory, so that loading one is too
// quick to be worth a goroutine. It is false for types of other packages, which may do anything.
func inMemory[S any](d Dataset[S]) bool {
	switch d := d.(type) {
	case Slice[S]:
		return true
	// the other types of this package; a method, since a type named here would be compiled into
	// every program, even one that does not use it
	case interface{ inMemory() bool }:
		return d.inMemory()
	}
	return false
}
