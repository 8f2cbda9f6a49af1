package pymarlin

import (
	"cmp"
	"fmt"

	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/optim/lr"
)

// Scheduler changes something after each update. [NewScheduler] makes those of package optim/lr.
type Scheduler interface {
	// Step is called after the steps of all optimizers, even if loss scaling has skipped the
	// steps.
	Step() error
	// State and LoadState save and restore it in a checkpoint.
	State() (State, error)
	LoadState(s State) error
}

// LRScheduler changes the learning rate of an optimizer, and its momentum if the schedule has one.
type LRScheduler struct {
	optimizer *Optimizer
	schedule  lr.Schedule
	rate      lr.Rate
	momentum  loops.Momentum
	moves     int
}

// NewScheduler plans a schedule for a run of the given number of updates and sets the rate of the
// first:
//
//	NewScheduler(opt, lr.OneCycleLR{MaxLR: 0.05}, estimatedGlobalStepsPerEpoch*epochs)
//
// PyMarlin's estimate is an upper bound. If the batches of an epoch divide evenly, it is one
// update per epoch too high, so a schedule planned with it does not quite reach its end.
func NewScheduler(o *Optimizer, s lr.Schedule, updates int) (*LRScheduler, error) {
	if err := lr.Validate(s, o.peak, updates); err != nil {
		return nil, fmt.Errorf("pymarlin: NewScheduler: %w", err)
	}
	l := &LRScheduler{optimizer: o, schedule: s, rate: s.Plan(o.peak, updates)}
	var err error
	if l.momentum, err = loops.PlanMomentum(s, o.optimizer, updates); err != nil {
		return nil, fmt.Errorf("pymarlin: NewScheduler: %w", err)
	}
	o.scheduled = l
	return l, l.apply()
}

// Step moves on to the next update.
func (l *LRScheduler) Step() error {
	l.moves++
	return l.apply()
}

func (l *LRScheduler) apply() error {
	l.optimizer.rate = l.rate(l.moves)
	return l.momentum.Set(l.moves)
}

// Moves returns how often Step has been called.
func (l *LRScheduler) Moves() int { return l.moves }

// Optimizer returns the optimizer whose rate it changes.
func (l *LRScheduler) Optimizer() *Optimizer { return l.optimizer }

// State returns what PyTorch's scheduler accepts in load_state_dict: the number of moves, and the
// rates.
func (l *LRScheduler) State() (State, error) {
	base := toAny(torchsave.Rates(l.optimizer.optimizer, l.optimizer.peak))
	s := State{"last_epoch": l.moves, "_step_count": l.moves + 1, "base_lrs": base,
		"_last_lr": toAny(l.optimizer.Rates())}
	switch l.schedule.(type) {
	case lr.LambdaLR, lr.MultiplicativeLR: // PyTorch's state has an entry for callable objects
		s["lr_lambdas"] = make([]any, len(base))
	}
	return s, nil
}

// LoadState continues after the saved number of moves, on the current schedule. Until the next
// move, the rate is the one saved for the optimizer, as in PyTorch.
func (l *LRScheduler) LoadState(s State) error {
	moves, ok := s["last_epoch"].(int)
	if !ok || moves < 0 {
		return fmt.Errorf("want the number of moves last_epoch, found %v", s["last_epoch"])
	}
	l.moves = moves
	return l.momentum.Set(l.moves)
}

// addTo adds what PyTorch's schedulers store in a group of the optimizer's state.
func (l *LRScheduler) addTo(group State, scale float64) {
	group["initial_lr"] = l.optimizer.peak * scale
	cycle, ok := l.schedule.(lr.OneCycleLR)
	if !ok {
		return
	}
	highest := cmp.Or(cycle.MaxLR, l.optimizer.peak) * scale
	lowest := highest / cmp.Or(cycle.DivFactor, 25)
	group["max_lr"], group["initial_lr"], group["min_lr"] = highest, lowest, lowest/cmp.Or(cycle.FinalDivFactor, 1e4)
	if !cycle.FixedMomentum {
		group["base_momentum"] = *cmp.Or(cycle.BaseMomentum, new(0.85))
		group["max_momentum"] = *cmp.Or(cycle.MaxMomentum, new(0.95))
	}
}
