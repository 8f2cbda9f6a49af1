package lr

import (
	"math"
	"slices"
	"sort"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
)

// TimmStep is timm's StepLRScheduler: the rate is multiplied by DecayRate every DecayT updates.
type TimmStep struct {
	TimmWarmup
	WarmupBeneath bool     // the updates of the warmup count too (warmup_prefix=False)
	DecayT        float64  // updates between two reductions, may be fractional (decay_t); required
	DecayRate     *float64 // nil means 1: no reduction
}

// Plan implements [Schedule].
func (s TimmStep) Plan(peak float64, _ int) Rate {
	decay := optional.Or(s.DecayRate, 1)
	rate := func(update int) float64 {
		t := float64(update)
		return peak * roundedmath.Pow(decay, math.Round((t-math.Mod(t, s.DecayT))/s.DecayT))
	}
	return s.TimmWarmup.plan(peak, peak, s.after(!s.WarmupBeneath, rate))
}

// Validate implements [Validator].
func (s TimmStep) Validate() error {
	c := checks{schedule: "TimmStep"}
	c.timmWarmup(s.TimmWarmup)
	c.that(s.DecayT > 0 && !math.IsInf(s.DecayT, 0), "DecayT", s.DecayT, "a positive number of updates")
	c.notNegative("DecayRate", optional.Or(s.DecayRate, 1))
	return c.err
}

// TimmMultiStep is timm's MultiStepLRScheduler: the rate is multiplied by DecayRate one update
// before each of those in DecayT, which is how timm counts.
type TimmMultiStep struct {
	TimmWarmup
	WarmupBeneath bool     // the updates of the warmup count too (warmup_prefix=False)
	DecayT        []int    // the milestones, in increasing order (decay_t)
	DecayRate     *float64 // nil means 1: no reduction
}

// Plan implements [Schedule].
func (s TimmMultiStep) Plan(peak float64, _ int) Rate {
	decay := optional.Or(s.DecayRate, 1)
	rate := func(update int) float64 {
		return peak * roundedmath.Pow(decay, float64(sort.SearchInts(s.DecayT, update+2)))
	}
	return s.TimmWarmup.plan(peak, peak, s.after(!s.WarmupBeneath, rate))
}

// Validate implements [Validator].
func (s TimmMultiStep) Validate() error {
	c := checks{schedule: "TimmMultiStep"}
	c.timmWarmup(s.TimmWarmup)
	c.that(slices.IsSorted(s.DecayT), "DecayT", s.DecayT, "rising numbers of updates")
	c.notNegative("DecayRate", optional.Or(s.DecayRate, 1))
	return c.err
}
