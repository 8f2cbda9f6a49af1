package lr

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
)

// Polynomial rises from 0 to the peak rate over the warmup and then decays as a power of the
// remaining share of the run: "polynomial" in transformers.
type Polynomial struct {
	Warmup float64  // updates if 1 or more, share of the run if less; 0: none
	LREnd  *float64 // the rate at the end and after it (lr_end), below the peak; nil means 1e-7
	Power  *float64 // 1 is a straight line (power); nil means 1
}

// Plan implements [Schedule].
func (p Polynomial) Plan(peak float64, updates int) Rate { return p.planGroup(peak, peak, updates) }

func (p Polynomial) planGroup(base, peak float64, updates int) Rate {
	end, power := optional.Or(p.LREnd, 1e-7), optional.Or(p.Power, 1)
	warmup := WarmupUpdates(p.Warmup, updates)
	return factors(base, warmup, func(update int) float64 {
		if update > updates || updates <= warmup {
			return end / peak
		}
		left := 1 - float64(update-warmup)/float64(updates-warmup)
		return (float64((peak-end)*roundedmath.Pow(left, power)) + end) / peak
	})
}

// Validate implements [Validator].
func (p Polynomial) Validate() error {
	c := checks{schedule: "Polynomial"}
	c.warmup(p.Warmup)
	c.notNegative("LREnd", optional.Or(p.LREnd, 0))
	c.notNegative("Power", optional.Or(p.Power, 1))
	return c.err
}

// ValidatePlan implements [PlanValidator].
func (p Polynomial) ValidatePlan(peak float64, updates int) error {
	if updates == 0 {
		return fmt.Errorf("lr: Polynomial falls over the updates of a run, of which there are none")
	}
	c := checks{schedule: "Polynomial"}
	c.that(optional.Or(p.LREnd, 1e-7) < peak, "LREnd", optional.Or(p.LREnd, 1e-7), "less than the peak rate")
	return c.err
}

// InverseSqrt rises from 0 to the peak rate over the warmup and then decays with the inverse
// square root of the update: "inverse_sqrt" in transformers.
type InverseSqrt struct {
	Warmup float64 // updates if 1 or more, share of the run if less; 0: none
	// updates after which the rate is 1/sqrt(2) of the peak (timescale); 0 means the warmup, or
	// 10,000 without one
	Timescale float64
}

// Plan implements [Schedule].
func (s InverseSqrt) Plan(peak float64, updates int) Rate {
	warmup := WarmupUpdates(s.Warmup, updates)
	timescale := cmp.Or(s.Timescale, float64(cmp.Or(warmup, 10_000)))
	shift := timescale - float64(warmup)
	return factors(peak, warmup, func(update int) float64 {
		return 1 / math.Sqrt((float64(update)+shift)/timescale)
	})
}

// Validate implements [Validator].
func (s InverseSqrt) Validate() error {
	c := checks{schedule: "InverseSqrt"}
	c.warmup(s.Warmup)
	c.notNegative("Timescale", s.Timescale)
	return c.err
}
