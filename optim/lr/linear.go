package lr

// Linear rises from 0 to the peak rate over the warmup and then decays in a straight line to 0 at
// the end of the run: "linear" in transformers. It is the default both there and here.
type Linear struct {
	Warmup float64 // updates if 1 or more, share of the run if less; 0: none
}

// Plan implements [Schedule].
func (l Linear) Plan(peak float64, updates int) Rate {
	warmup := WarmupUpdates(l.Warmup, updates)
	span := float64(max(1, updates-warmup))
	return func(update int) float64 {
		if f, ok := warmupFactor(update, warmup); ok {
			return peak * f
		}
		return peak * max(0, float64(updates-update)/span)
	}
}

// Validate implements [Validator].
func (l Linear) Validate() error { return validateWarmup("Linear", l.Warmup) }
