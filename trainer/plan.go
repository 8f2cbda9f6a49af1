package trainer

import "math"

// plan is how long a run is: what transformers.Trainer works out in set_initial_training_values.
type plan struct {
	batches         int // micro-batches of an epoch
	accumulate      int // micro-batches of a full window
	updatesPerEpoch int
	maxSteps        int  // updates of the run
	epochs          int  // epochs that are begun
	stream          bool // the number of batches is known only when a pass has ended; batches is that of the whole run
}

// newPlan plans a run over an epoch of so many batches. A positive maxSteps decides alone; otherwise it is the number of epochs, which may
// have a fraction.
func newPlan(batches, accumulate int, epochs float64, maxSteps int) plan {
	p := plan{batches: batches, accumulate: accumulate}
	p.updatesPerEpoch = max(1, (batches+accumulate-1)/accumulate)
	if maxSteps > 0 {
		p.maxSteps = maxSteps
		p.epochs = (maxSteps + p.updatesPerEpoch - 1) / p.updatesPerEpoch
	} else {
		p.maxSteps = int(math.Ceil(epochs * float64(p.updatesPerEpoch)))
		p.epochs = int(math.Ceil(epochs))
	}
	return p
}

// newStreamPlan plans a run of so many updates over a stream, in as many passes as it takes.
func newStreamPlan(accumulate, maxSteps int) plan {
	return plan{batches: maxSteps * accumulate, accumulate: accumulate, updatesPerEpoch: maxSteps, maxSteps: maxSteps, epochs: math.MaxInt, stream: true}
}

// window returns the length of the window that begins at a micro-batch of the epoch; 0 at its end. Of a stream it is the
// most that the window can have.
func (p plan) window(micro int) int {
	if p.stream {
		return p.accumulate
	}
	return max(0, min(p.accumulate, p.batches-micro))
}
