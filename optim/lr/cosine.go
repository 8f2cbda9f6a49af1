package lr

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
)

// Cosine rises from 0 to the peak rate over the warmup and then decays along a cosine: "cosine" in
// transformers.
type Cosine struct {
	Warmup float64 // updates if 1 or more, share of the run if less; 0: none
	Cycles float64 // waves after the warmup (num_cycles); 0 means 0.5: one decay from the peak to zero
}

// Plan implements [Schedule].
func (c Cosine) Plan(peak float64, updates int) Rate {
	return CosineWithMinLR{Warmup: c.Warmup, Cycles: c.Cycles}.Plan(peak, updates)
}

// Validate implements [Validator].
func (c Cosine) Validate() error { return validateCosine("Cosine", c.Warmup, c.Cycles) }

// CosineWithRestarts decays along a cosine to 0 several times, each time from the full peak:
// "cosine_with_restarts" in transformers.
type CosineWithRestarts struct {
	Warmup float64 // updates if 1 or more, share of the run if less; 0: none
	Cycles float64 // decays after the warmup (num_cycles); 0 means 1
}

// Plan implements [Schedule].
func (c CosineWithRestarts) Plan(peak float64, updates int) Rate {
	cycles := cmp.Or(c.Cycles, 1)
	warmup := WarmupUpdates(c.Warmup, updates)
	span := float64(max(1, updates-warmup))
	return factors(peak, warmup, func(update int) float64 {
		progress := float64(update-warmup) / span
		if progress >= 1 {
			return 0
		}
		return max(0, 0.5*(1+roundedmath.Cos(math.Pi*math.Mod(cycles*progress, 1))))
	})
}

// Validate implements [Validator].
func (c CosineWithRestarts) Validate() error {
	return validateCosine("CosineWithRestarts", c.Warmup, c.Cycles)
}

// CosineWithMinLR is [Cosine] that ends above zero: "cosine_with_min_lr" in transformers.
type CosineWithMinLR struct {
	Warmup    float64 // updates if 1 or more, share of the run if less; 0: none
	Cycles    float64 // waves after the warmup (num_cycles); 0 means 0.5: one decay
	MinLR     float64 // the lowest rate (min_lr); 0: use MinLRRate
	MinLRRate float64 // the lowest rate as a share of the peak (min_lr_rate)
}

// Plan implements [Schedule].
func (c CosineWithMinLR) Plan(peak float64, updates int) Rate {
	return c.planGroup(peak, peak, updates)
}

func (c CosineWithMinLR) planGroup(base, peak float64, updates int) Rate {
	cycles, floor := cmp.Or(c.Cycles, 0.5), minRate(c.MinLR, c.MinLRRate, peak)
	warmup := WarmupUpdates(c.Warmup, updates)
	span := float64(max(1, updates-warmup))
	return factors(base, warmup, func(update int) float64 {
		progress := float64(update-warmup) / span
		factor := 0.5 * (1 + roundedmath.Cos(math.Pi*cycles*2*progress))
		return max(0, float64(factor*(1-floor))+floor)
	})
}

// Validate implements [Validator].
func (c CosineWithMinLR) Validate() error {
	return firstError(validateCosine("CosineWithMinLR", c.Warmup, c.Cycles), validateMinRate("CosineWithMinLR", c.MinLR,
		c.MinLRRate))
}

// ValidatePlan implements [PlanValidator].
func (c CosineWithMinLR) ValidatePlan(peak float64, _ int) error {
	return validateFloor("CosineWithMinLR", c.MinLR, peak)
}

// CosineWarmupWithMinLR is [CosineWithMinLR] that counts from one instead of zero, so that no
// update is wasted on a rate of zero: "cosine_warmup_with_min_lr" in transformers.
type CosineWarmupWithMinLR struct {
	Warmup       float64  // updates if 1 or more, share of the run if less; 0: none
	WarmupLRRate *float64 // the first rate as a share of the peak (warmup_lr_rate); nil: 1/Warmup
	Cycles       float64  // waves after the warmup (num_cycles); 0 means 0.5: one decay
	MinLR        float64  // the lowest rate (min_lr); 0: use MinLRRate
	MinLRRate    float64  // the lowest rate as a share of the peak (min_lr_rate)
}

// Plan implements [Schedule].
func (c CosineWarmupWithMinLR) Plan(peak float64, updates int) Rate {
	return c.planGroup(peak, peak, updates)
}

func (c CosineWarmupWithMinLR) planGroup(base, peak float64, updates int) Rate {
	cycles, floor := cmp.Or(c.Cycles, 0.5), minRate(c.MinLR, c.MinLRRate, peak)
	warmup := WarmupUpdates(c.Warmup, updates)
	span := float64(max(1, updates-warmup))
	return func(update int) float64 {
		if update < warmup {
			if c.WarmupLRRate == nil {
				return base * ((float64(update) + 1) / float64(max(1, warmup)))
			}
			start := *c.WarmupLRRate
			return base * (start + (1-start)*float64(update)/float64(max(1, warmup-1)))
		}
		progress := (float64(update-warmup) + 1) / span
		factor := 0.5 * (1 + roundedmath.Cos(math.Pi*cycles*2*progress))
		return base * max(0, float64(factor*(1-floor))+floor)
	}
}

// Validate implements [Validator].
func (c CosineWarmupWithMinLR) Validate() error {
	const name = "CosineWarmupWithMinLR"
	start := checks{schedule: name}
	start.notNegative("WarmupLRRate", optional.Or(c.WarmupLRRate, 0))
	return firstError(validateCosine(name, c.Warmup, c.Cycles), validateMinRate(name, c.MinLR, c.MinLRRate), start.err)
}

// ValidatePlan implements [PlanValidator].
func (c CosineWarmupWithMinLR) ValidatePlan(peak float64, _ int) error {
	return validateFloor("CosineWarmupWithMinLR", c.MinLR, peak)
}

// minRate returns the lowest rate as a fraction of the peak.
func minRate(minLR, minLRRate, peak float64) float64 {
	if minLR != 0 {
		return minLR / peak
	}
	return minLRRate
}

func validateMinRate(schedule string, minLR, minLRRate float64) error {
	c := checks{schedule: schedule}
	c.notNegative("MinLR", minLR)
	c.notNegative("MinLRRate", minLRRate)
	c.that(minLR == 0 || minLRRate == 0, "MinLRRate", minLRRate, "0 beside a MinLR: only one of them can be set")
	return c.err
}

// validateFloor returns an error if MinLR is set but the peak is zero, since MinLR is converted to
// a fraction of it.
func validateFloor(schedule string, minLR, peak float64) error {
	c := checks{schedule: schedule}
	c.that(minLR == 0 || peak != 0, "MinLR", minLR, "0, since the peak rate is 0 and MinLR is a share of it")
	return c.err
}

func validateCosine(schedule string, warmup, cycles float64) error {
	c := checks{schedule: schedule}
	c.that(cycles >= 0 && !math.IsInf(cycles, 0), "Cycles", cycles, "a positive number of waves, or 0 for the default")
	c.warmup(warmup)
	return c.err
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
