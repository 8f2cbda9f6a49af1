package lr

import (
	"fmt"
	"math"
)

// Cosine rises from 0 to the peak rate over the warmup and falls along a cosine: "cosine" in transformers.
type Cosine struct {
	Warmup float64 // updates if 1 or more, share of the run if less; 0: none
	Cycles float64 // waves after the warmup (num_cycles); 0 means 0.5: one fall from the peak to zero
}

// Plan implements [Schedule].
func (c Cosine) Plan(peak float64, updates int) Rate {
	cycles := c.Cycles
	if cycles == 0 {
		cycles = 0.5
	}
	warmup := WarmupUpdates(c.Warmup, updates)
	span := float64(max(1, updates-warmup))
	return func(update int) float64 {
		if f, ok := warmupFactor(update, warmup); ok {
			return peak * f
		}
		progress := float64(update-warmup) / span
		return peak * max(0, 0.5*(1+cos(math.Pi*cycles*2*progress)))
	}
}

// Validate implements [Validator].
func (c Cosine) Validate() error {
	if c.Cycles < 0 || math.IsNaN(c.Cycles) || math.IsInf(c.Cycles, 0) {
		return fmt.Errorf("lr: Cosine.Cycles is %v: want a positive number of waves, or 0 for one half", c.Cycles)
	}
	return validateWarmup("Cosine", c.Warmup)
}
