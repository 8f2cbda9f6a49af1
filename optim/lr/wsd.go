package lr

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
)

// Curve is the shape of a change from one rate to another in [WarmupStableDecay].
type Curve string

// The curves of transformers. The empty Curve means the default of the field that holds it.
const (
	LinearCurve  Curve = "linear"
	CosineCurve  Curve = "cosine"
	OneMinusSqrt Curve = "1-sqrt"
)

// WarmupStableDecay rises to the peak rate, stays there and decays at the end:
// "warmup_stable_decay" in transformers. After the decay the rate is MinLRRatio times the peak. As
// in transformers, a decay that is longer than what remains of the run after the warmup still ends
// with the run: it is partly complete when the warmup ends, and the rate drops to that point at
// once.
type WarmupStableDecay struct {
	Warmup      float64 // updates if 1 or more, share of the run if less; 0: none
	DecaySteps  int     // updates of the decay (num_decay_steps)
	StableSteps *int    // updates at the peak (num_stable_steps); nil: what warmup and decay leave of the run
	WarmupType  Curve   // empty means LinearCurve
	DecayType   Curve   // empty means CosineCurve
	MinLRRatio  float64 // the rate before the warmup and after the decay as a share of the peak (min_lr_ratio)
	Cycles      float64 // waves of a decay along a cosine (num_cycles); 0 means 0.5: one decay
}

// Plan implements [Schedule].
func (w WarmupStableDecay) Plan(peak float64, updates int) Rate {
	cycles := cmp.Or(w.Cycles, 0.5)
	warmup := WarmupUpdates(w.Warmup, updates)
	stable := optional.Or(w.StableSteps, updates-warmup-w.DecaySteps)
	above := func(factor float64) float64 { return max(0, float64(factor*(1-w.MinLRRatio))+w.MinLRRatio) }
	return func(update int) float64 {
		switch {
		case update < warmup:
			progress := float64(update) / float64(max(1, warmup))
			switch cmp.Or(w.WarmupType, LinearCurve) {
			case CosineCurve:
				return peak * above(0.5*(1-roundedmath.Cos(math.Pi*progress)))
			case OneMinusSqrt:
				return peak * above(1-math.Sqrt(1-progress))
			default:
				return peak * above(progress)
			}
		case update < warmup+stable:
			return peak
		case update < warmup+stable+w.DecaySteps:
			progress := float64(update-warmup-stable) / float64(max(1, w.DecaySteps))
			switch cmp.Or(w.DecayType, CosineCurve) {
			case LinearCurve:
				return peak * above(1-progress)
			case OneMinusSqrt:
				return peak * above(1-math.Sqrt(progress))
			default:
				return peak * above(0.5*(1+roundedmath.Cos(math.Pi*cycles*2*progress)))
			}
		}
		return peak * w.MinLRRatio
	}
}

// Validate implements [Validator].
func (w WarmupStableDecay) Validate() error {
	c := checks{schedule: "WarmupStableDecay"}
	c.warmup(w.Warmup)
	c.count("DecaySteps", w.DecaySteps)
	c.count("StableSteps", optional.Or(w.StableSteps, 0))
	const curves = `"linear", "cosine", "1-sqrt", or "" for the default`
	c.that(w.WarmupType.known(), "WarmupType", string(w.WarmupType), curves)
	c.that(w.DecayType.known(), "DecayType", string(w.DecayType), curves)
	c.notNegative("MinLRRatio", w.MinLRRatio)
	c.notNegative("Cycles", w.Cycles)
	return c.err
}

func (c Curve) known() bool {
	return c == "" || c == LinearCurve || c == CosineCurve || c == OneMinusSqrt
}
