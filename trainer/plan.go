package trainer

import (
	"math"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// plan is the length of a run: what transformers.Trainer computes in set_initial_training_values,
// and other trainers in similar functions.
type plan struct {
	batches         int  // micro-batches in an epoch
	accumulate      int  // micro-batches in a full window
	updatesPerEpoch int  // as planned
	stepsPerEpoch   int  // as planned
	maxSteps        int  // steps of the run, as planned
	limit           int  // steps after which the run ends, unless its epochs have ended before
	epochs          int  // epochs, including an incomplete last one
	maxInEpoch      int  // maximum steps in an epoch; 0: no limit
	stream          bool // the length of a pass is known only at its end; batches is that of the whole run
}

// lengths are the options from which a plan is made.
type lengths struct {
	batches    int // in an epoch
	unlimited  int // batches in an epoch without Options.LimitBatches; 0: the same
	accumulate int
	epochs     float64 // may have a fraction
	maxSteps   int     // if positive, it alone decides the length; in Hezar's loop it only shortens the epochs
	maxInEpoch int
}

func newPlan(l lengths, rules semantics.Rules) plan {
	p := plan{batches: l.batches, accumulate: l.accumulate, maxInEpoch: l.maxInEpoch}
	planned := l.batches
	if rules.PlanIgnoresLimit && l.unlimited > 0 {
		planned = l.unlimited
	}
	p.updatesPerEpoch = max(1, (planned+l.accumulate-1)/l.accumulate)
	if rules.Loop == semantics.PyMarlinLoop { // one too many if the division is exact
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
		// only the epochs end the run: a resumed run may have made more steps than are planned now
		p.limit = math.MaxInt
	}
	return p
}

// newStreamPlan plans a run of maxSteps steps over a stream, in as many passes as that takes.
func newStreamPlan(accumulate, maxSteps int, rules semantics.Rules) plan {
	p := plan{batches: maxSteps * accumulate, accumulate: accumulate, updatesPerEpoch: maxSteps,
		stepsPerEpoch: maxSteps, maxSteps: maxSteps, limit: maxSteps, epochs: math.MaxInt, stream: true}
	if rules.CountsBatches() {
		p.batches = maxSteps
		p.updatesPerEpoch = (maxSteps + accumulate - 1) / accumulate
	}
	return p
}

// window returns how many micro-batches are trained on together, starting at micro-batch micro of
// the epoch, when phase micro-batches of their window have been trained on. It returns 0 at the end
// of the epoch. For a stream it returns the maximum.
func (p plan) window(micro, phase int) int {
	if p.stream {
		return p.accumulate - phase
	}
	return max(0, min(p.accumulate-phase, p.batches-micro))
}

// scheduleSteps returns how often the learning rate is planned to change: with every update or, if
// the schedule counts steps, once per that number of steps.
func (p plan) scheduleSteps(every int, rules semantics.Rules) int {
	if rules.CountsBatches() {
		return max(1, p.maxSteps/every)
	}
	return p.maxSteps
}

// movesPerEpoch returns how often the rate changes in an epoch; see scheduleSteps. It returns 0 if
// this differs from epoch to epoch or is not known yet.
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
	case rules.CountsBatches(), rules.CarriesWindows(): // the remainder is carried into the next epoch
		return 0
	default: // the remainder is a window of its own
		moves++
	}
	return min(moves, most)
}

// batchesPerStep returns the number of micro-batches in a full step.
func (p plan) batchesPerStep(rules semantics.Rules) int {
	if rules.CountsBatches() {
		return 1
	}
	return p.accumulate
}
