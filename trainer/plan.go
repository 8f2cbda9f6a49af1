package trainer

import (
	"math"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// plan is how long a run is: what transformers.Trainer works out in set_initial_training_values,
// and the others in theirs.
type plan struct {
	batches         int  // micro-batches of an epoch
	accumulate      int  // micro-batches of a full window
	updatesPerEpoch int  // as planned
	stepsPerEpoch   int  // the same in steps
	maxSteps        int  // steps of the run, as planned
	limit           int  // steps after which it ends, if its epochs have not ended before
	epochs          int  // epochs that are begun
	maxInEpoch      int  // steps of an epoch at most; 0: no limit
	stream          bool // the number of batches is known only when a pass has ended; batches is that of the whole run
}

// lengths are the options that a plan is made of.
type lengths struct {
	batches    int // of an epoch
	unlimited  int // batches that it would have without Options.LimitBatches; 0: the same
	accumulate int
	epochs     float64 // may have a fraction
	maxSteps   int     // if positive it decides alone; in Hezar's loop it only shortens the epochs
	maxInEpoch int
}

func newPlan(l lengths, rules semantics.Rules) plan {
	p := plan{batches: l.batches, accumulate: l.accumulate, maxInEpoch: l.maxInEpoch}
	planned := l.batches
	if rules.PlanIgnoresLimit && l.unlimited > 0 {
		planned = l.unlimited
	}
	p.updatesPerEpoch = max(1, (planned+l.accumulate-1)/l.accumulate)
	if rules.Loop == semantics.PyMarlinLoop { // one too many where the division is exact
		p.updatesPerEpoch = planned/l.accumulate + 1
	}
	p.stepsPerEpoch = p.updatesPerEpoch
	if rules.CountsBatches() {
		p.stepsPerEpoch = planned
	}
	if l.maxInEpoch > 0 {
		p.updatesPerEpoch, p.stepsPerEpoch = min(p.updatesPerEpoch, l.maxInEpoch), min(p.stepsPerEpoch, l.maxInEpoch)
	}
	p.maxSteps, p.epochs = int(math.Ceil(l.epochs*float64(p.stepsPerEpoch))), int(math.Ceil(l.epochs))
	switch {
	case l.maxSteps > 0 && rules.Loop == semantics.HezarLoop: // it only shortens the epochs
		p.maxSteps = min(p.maxSteps, l.maxSteps)
	case l.maxSteps > 0:
		p.maxSteps = l.maxSteps
		p.epochs = (l.maxSteps + p.stepsPerEpoch - 1) / p.stepsPerEpoch
	}
	p.limit = p.maxSteps
	switch {
	case l.maxSteps > 0:
	case rules.LimitByEpoch:
		p.limit++
	case rules.CarriesWindows() && l.epochs == math.Trunc(l.epochs):
		// the epochs alone end it: behind a resumed run may be more steps than are planned now
		p.limit = math.MaxInt
	}
	return p
}

// newStreamPlan plans a run of so many steps over a stream, in as many passes as it takes.
func newStreamPlan(accumulate, maxSteps int, rules semantics.Rules) plan {
	p := plan{batches: maxSteps * accumulate, accumulate: accumulate, updatesPerEpoch: maxSteps,
		stepsPerEpoch: maxSteps, maxSteps: maxSteps, limit: maxSteps, epochs: math.MaxInt, stream: true}
	if rules.CountsBatches() {
		p.batches = maxSteps
		p.updatesPerEpoch = (maxSteps + accumulate - 1) / accumulate
	}
	return p
}

// window returns how many micro-batches are trained on together that begin at one of the epoch,
// with so many of their window behind them; 0 at the end of the epoch. Of a stream it is the most
// that there can be.
func (p plan) window(micro, phase int) int {
	if p.stream {
		return p.accumulate - phase
	}
	return max(0, min(p.accumulate-phase, p.batches-micro))
}

// scheduleSteps is how often the learning rate is planned to move: with every update, or after
// every so many steps where steps count for it.
func (p plan) scheduleSteps(every int, rules semantics.Rules) int {
	if rules.CountsBatches() {
		return max(1, p.maxSteps/every)
	}
	return p.maxSteps
}

// movesPerEpoch is how often the rate moves in an epoch, see scheduleSteps; 0: the epochs differ,
// or how long they are is not known yet.
func (p plan) movesPerEpoch(every int, rules semantics.Rules) int {
	batches, perMove, most := p.batches, p.accumulate, p.maxInEpoch
	if most == 0 {
		most = math.MaxInt
	}
	if rules.CountsBatches() {
		batches, perMove, most = min(batches, most, p.maxSteps), every, math.MaxInt
	}
	moves, rest := batches/perMove, batches%perMove
	switch {
	case p.stream:
		return 0
	case rest == 0 || moves >= most:
	case rules.CountsBatches(), rules.CarriesWindows(): // the rest counts in the next epoch
		return 0
	default: // the rest is a window
		moves++
	}
	return min(moves, most)
}

// batchesPerStep is how many micro-batches a full step has.
func (p plan) batchesPerStep(rules semantics.Rules) int {
	if rules.CountsBatches() {
		return 1
	}
	return p.accumulate
}
