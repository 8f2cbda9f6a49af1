package pymarlin

import (
	"fmt"
	"maps"

	"github.com/gotrainer/gotrainer/torch"
)

// place is where a run stands behind its module, optimizers and counts.
type place struct {
	random random // the generators
	stats  State  // that have not been written

	// inside an epoch:
	run     []byte    // the state of the loop; nil: it is between two epochs
	pass    random    // the generators as they were before the loader of the epoch was made
	outputs Collected // of the epoch, where it is its validation that was interrupted
}

// The keys of a place among those of a trainer's state.
const (
	randomKey = "rng_state"
	passKey   = "epoch_rng_state"
	statsKey  = "stats"
	runKey    = "run_state"
)

// here is where everything is now, between two epochs.
func (t *Trainer[B]) here() (*place, error) {
	p := &place{}
	err := torch.Try(func() { p.random, p.stats = currentRandom(t.device), t.stats.state() })
	return p, err
}

func (p *place) state() State {
	s := State{randomKey: p.random.state(), statsKey: p.stats}
	if p.run != nil {
		maps.Copy(s, State{runKey: string(p.run), passKey: p.pass.state(), outputsKey: p.outputs.state()})
	}
	return s
}

// readPlace is what state was made of, among other things. A state that PyMarlin has written has
// nothing of it.
func readPlace(s State, device torch.Device) (p *place, err error) {
	p = &place{}
	if p.random, err = readRandom(s[randomKey], device); err != nil {
		return nil, err
	}
	p.stats, _ = s[statsKey].(State)
	if s[runKey] == nil {
		return p, nil
	}
	run, ok := s[runKey].(string)
	if !ok {
		return nil, fmt.Errorf("%s is %T, want a text", runKey, s[runKey])
	}
	p.run = []byte(run)
	if pass, _ := s[passKey].(State); len(pass) > 0 {
		if p.pass, err = readRandom(pass, device); err != nil {
			return nil, err
		}
	}
	p.outputs, err = readCollected(s[outputsKey])
	return p, err
}
