package lr

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
)

// PytorchAcceleratedCosine is pytorch-accelerated's CosineLrScheduler: a warmup, a decay along a
// cosine with k-decay, and a cooldown at the lowest rate. Its trainer steps it after an update, so
// the first update has the rate set by the constructor, and update k has the value of step k-1. As
// in the original, the cosine is cut off WarmupSteps before its end.
type PytorchAcceleratedCosine struct {
	TotalSteps       int      // total_num_epochs * num_update_steps_per_epoch; 0 means the whole run
	KDecay           float64  // above 1 the rate stays high for longer (k_decay); 0 means 1
	LRMin            *float64 // the lowest rate (lr_min); nil means 1e-6
	MinLRRatio       *float64 // the lowest rate as a share of the peak (min_lr_ratio); nil: use LRMin
	WarmupSteps      int      // updates of the warmup: num_warmup_epochs * num_update_steps_per_epoch
	WarmupStartingLR *float64 // the first rate of the warmup (warmup_starting_lr); nil means 1e-6
	// that rate, after update 0, as a share of the peak (warmup_starting_lr_ratio); nil: use
	// WarmupStartingLR
	WarmupStartingLRRatio *float64
	CooldownSteps         int // updates at the lowest rate: num_cooldown_epochs * num_update_steps_per_epoch
	// update k has the value of step k, the warmup ends at the peak, and the cosine ends where the
	// cooldown starts
	Corrected bool
}

// Plan implements [Schedule].
func (a PytorchAcceleratedCosine) Plan(peak float64, updates int) Rate {
	k, start, lowest := cmp.Or(a.KDecay, 1), optional.Or(a.WarmupStartingLR, 1e-6), optional.Or(a.LRMin, 1e-6)
	if a.MinLRRatio != nil {
		lowest = *a.MinLRRatio * peak
	}
	from := start
	if a.WarmupStartingLRRatio != nil {
		from = *a.WarmupStartingLRRatio * peak
	}
	fall := cmp.Or(a.TotalSteps, updates) - (a.WarmupSteps + a.CooldownSteps)
	first, end, climb := peak, fall, peak-start
	if a.WarmupSteps > 0 {
		first = start
	}
	if a.Corrected {
		end, climb = fall+a.WarmupSteps, peak-from
	}
	value := func(step int) float64 {
		switch {
		case step < a.WarmupSteps:
			return from + float64(float64(step)*(climb/float64(a.WarmupSteps)))
		case step < end:
			done := math.Pi * roundedmath.Pow(float64(step-a.WarmupSteps), k) / roundedmath.Pow(float64(fall), k)
			return lowest + float64(0.5*(peak-lowest)*(1+roundedmath.Cos(done)))
		}
		return lowest
	}
	if a.Corrected {
		return fromFirst(value)
	}
	return afterFirst(first, value)
}

// Validate implements [Validator].
func (a PytorchAcceleratedCosine) Validate() error {
	c := checks{schedule: "PytorchAcceleratedCosine"}
	c.count("TotalSteps", a.TotalSteps)
	c.notNegative("KDecay", a.KDecay)
	c.notNegative("LRMin", optional.Or(a.LRMin, 0))
	c.notNegative("MinLRRatio", optional.Or(a.MinLRRatio, 0))
	c.count("WarmupSteps", a.WarmupSteps)
	c.notNegative("WarmupStartingLR", optional.Or(a.WarmupStartingLR, 0))
	c.notNegative("WarmupStartingLRRatio", optional.Or(a.WarmupStartingLRRatio, 0))
	c.count("CooldownSteps", a.CooldownSteps)
	return c.err
}

// PytorchAcceleratedWSD is pytorch-accelerated's WSDLrScheduler: a warmup, a stable phase, and a
// decay before each of a few checkpoints. As with [PytorchAcceleratedCosine], the first update has
// the rate set by the constructor, which here is the peak even with a warmup, and update k has the
// value of step k-1.
type PytorchAcceleratedWSD struct {
	TotalSteps        int      // total_steps; 0 means the whole run
	WarmupSteps       int      // updates of the warmup (num_warmup_steps); its create_scheduler_fn takes 1% of the run
	DecayPhaseRatio   *float64 // share of the way to each checkpoint that decays (decay_phase_ratio); nil means 0.1
	LRMin             *float64 // the rate at a checkpoint as a share of the peak (lr_min); nil means 1e-6
	WarmupStartingLR  *float64 // the first rate of the warmup (warmup_starting_lr); nil means 1e-6
	InverseProportion bool     // decay as in the paper, 1/t, not along a square root (use_inverse_sqrt_decay=False)
	// checkpoints (num_checkpoints); 0 means 1, at the end; more: at 1/4, 1/2 and all of the run
	Checkpoints  int
	Continuation bool // continue from a checkpoint: no warmup (is_continuation_from_checkpoint)
	// update k has the value of step k, the warmup comes first, and several checkpoints are at ...,
	// 1/4, 1/2 and the end of the run
	Corrected bool
}

// Plan implements [Schedule].
func (a PytorchAcceleratedWSD) Plan(peak float64, updates int) Rate {
	total := cmp.Or(a.TotalSteps, updates)
	start, lowest := optional.Or(a.WarmupStartingLR, 1e-6), optional.Or(a.LRMin, 1e-6)
	checkpoints := a.CheckpointSteps(total)
	value := func(step int) float64 {
		if !a.Continuation && step < a.WarmupSteps {
			return start + float64(float64(step)/float64(a.WarmupSteps)*(peak-start))
		}
		period, into := currentPeriod(checkpoints, step)
		decay := int(float64(period) * optional.Or(a.DecayPhaseRatio, 0.1))
		if into < period-decay {
			return peak
		}
		done := 1.0
		if decay > 0 {
			done = min(float64(into-(period-decay))/float64(decay), 1)
		}
		if a.InverseProportion {
			return peak / (float64(done*(1/lowest)) + (1 - done))
		}
		return peak * (lowest + float64((1-lowest)*(1-math.Sqrt(done))))
	}
	if a.Corrected {
		return fromFirst(func(step int) float64 {
			if step >= checkpoints[len(checkpoints)-1] { // after the last checkpoint the rate keeps its final value
				step = checkpoints[len(checkpoints)-1] - 1
			}
			return value(step)
		})
	}
	return afterFirst(peak, value)
}

// CheckpointSteps returns the steps at which a decay ends, in a run of the given length:
// estimate_checkpoint_steps.
func (a PytorchAcceleratedWSD) CheckpointSteps(total int) []int {
	n := cmp.Or(a.Checkpoints, 1)
	// Otherwise the first of several checkpoints would be at 0. The Python code divides by zero
	// there, in the first step.
	if n == 1 || total < 4 && a.Corrected {
		return []int{total}
	}
	var steps []int
	if a.Corrected {
		for i := n - 1; i >= 0; i-- {
			if step := total >> i; step > 0 {
				steps = append(steps, step)
			}
		}
		return steps
	}
	for step := total / 4; len(steps) < n; step *= 2 {
		steps = append(steps, min(step, total))
		if step >= total {
			break
		}
	}
	return steps
}

// currentPeriod returns the length of the period that ends at the next checkpoint, and the position
// of step in it. After the last checkpoint it returns the length of the first period and step
// itself, as the Python code does.
func currentPeriod(checkpoints []int, step int) (length, into int) {
	previous := 0
	for _, c := range checkpoints {
		if step < c {
			return c - previous, step - previous
		}
		previous = c
	}
	return checkpoints[0], step
}

// Validate implements [Validator].
func (a PytorchAcceleratedWSD) Validate() error {
	c := checks{schedule: "PytorchAcceleratedWSD"}
	c.count("TotalSteps", a.TotalSteps)
	c.count("WarmupSteps", a.WarmupSteps)
	c.share("DecayPhaseRatio", optional.Or(a.DecayPhaseRatio, 0.1))
	c.that(a.Checkpoints <= 1 || optional.Or(a.DecayPhaseRatio, 0.1) <= 1.0/3, "DecayPhaseRatio",
		optional.Or(a.DecayPhaseRatio, 0.1),
		"at most 1/3 with several checkpoints, or their decays may overlap")
	c.notNegative("LRMin", optional.Or(a.LRMin, 0))
	c.that(!a.Corrected || !a.InverseProportion || optional.Or(a.LRMin, 1e-6) > 0, "LRMin", optional.Or(a.LRMin, 1e-6),
		"more than 0 with InverseProportion")
	c.notNegative("WarmupStartingLR", optional.Or(a.WarmupStartingLR, 0))
	c.that(a.Checkpoints >= 0 && a.Checkpoints < 64, "Checkpoints", a.Checkpoints, "a positive number, or 0 for 1")
	return c.err
}

// ValidatePlan implements [PlanValidator].
func (a PytorchAcceleratedWSD) ValidatePlan(peak float64, _ int) error {
	c := checks{schedule: "PytorchAcceleratedWSD"}
	c.that(optional.Or(a.WarmupStartingLR, 1e-6) <= peak, "WarmupStartingLR", optional.Or(a.WarmupStartingLR, 1e-6),
		"at most the peak rate")
	return c.err
}

// fromFirst returns the plan of a scheduler whose step 0 comes before update 0.
func fromFirst(value func(step int) float64) Rate {
	return func(update int) float64 { return value(max(0, update)) }
}

// afterFirst returns the plan of a scheduler whose step 0 comes after update 0.
func afterFirst(first float64, value func(step int) float64) Rate {
	return func(update int) float64 {
		if update <= 0 {
			return first
		}
		return value(update - 1)
	}
}
