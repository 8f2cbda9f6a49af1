package lr

// Constant keeps the peak rate over the whole run: "constant" in transformers.
type Constant struct{}

// Plan implements [Schedule].
func (Constant) Plan(peak float64, _ int) Rate {
	return func(int) float64 { return peak }
}

// ConstantWithWarmup rises from 0 to the peak rate and stays there: "constant_with_warmup" in
// transformers.
type ConstantWithWarmup struct {
	Warmup float64 // updates if 1 or more, share of the run if less; 0: none
}

// Plan implements [Schedule].
func (c ConstantWithWarmup) Plan(peak float64, updates int) Rate {
	warmup := WarmupUpdates(c.Warmup, updates)
	return func(update int) float64 {
		if f, ok := warmupFactor(update, warmup); ok {
			return peak * f
		}
		return peak
	}
}

// Validate implements [Validator].
func (c ConstantWithWarmup) Validate() error { return validateWarmup("ConstantWithWarmup", c.Warmup) }
