package lr

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/roundedmath"
)

// TimmWSD is timm's WSDLRScheduler: a warmup, a stable phase that may decay slowly, and a decay
// over the last DecayT updates.
type TimmWSD struct {
	TimmWarmup
	TInitial        int     // updates after the warmup (t_initial); 0 means what the warmup leaves of the run
	DecayT          int     // updates of the decay (decay_t); required
	LRMin           float64 // the rate after the decay, and the lowest one (lr_min)
	StableFn        string  // "constant", "rsqrt" or "power" (stable_fn); empty means "constant"
	StableTimescale float64 // for "rsqrt" and "power" (stable_timescale); 0 means WarmupT
	StablePower     float64 // for "power" (stable_power); 0 means 0.5
	DecayFn         string  // "linear", "1-sqrt", "cosine", "power" or "exp" (decay_fn); empty means "1-sqrt"
	DecayPower      float64 // for "power" (decay_power); 0 means 0.5
	DecayRatio      float64 // for "exp" (decay_ratio); 0 means 0.1

	// Decay, if not nil, replaces DecayFn. It maps the completed share of the decay to a factor.
	Decay func(done float64) float64
}

// Plan implements [Schedule].
func (s TimmWSD) Plan(peak float64, updates int) Rate {
	begin, decay := s.length(updates)-s.DecayT, s.decay()
	return s.TimmWarmup.plan(peak, peak, func(update int) float64 {
		t := update - s.WarmupT
		stable := max(peak*s.stable(float64(t)), s.LRMin)
		if t <= begin {
			return stable
		}
		done := min(float64(t-begin)/float64(s.DecayT), 1)
		return s.LRMin + float64((stable-s.LRMin)*decay(done))
	})
}

func (s TimmWSD) length(updates int) int { return cmp.Or(s.TInitial, updates-s.WarmupT) }

func (s TimmWSD) stable(t float64) float64 {
	power := 0.5
	switch s.StableFn {
	case "", "constant":
		return 1
	case "power":
		power = cmp.Or(s.StablePower, 0.5)
	}
	return roundedmath.Pow(1+t/cmp.Or(s.StableTimescale, float64(s.WarmupT)), -power)
}

func (s TimmWSD) decay() func(done float64) float64 {
	if s.Decay != nil {
		return s.Decay
	}
	switch s.DecayFn {
	case "linear":
		return func(done float64) float64 { return 1 - done }
	case "cosine":
		return func(done float64) float64 { return 0.5 * (1 + roundedmath.Cos(math.Pi*done)) }
	case "power":
		power := cmp.Or(s.DecayPower, 0.5)
		return func(done float64) float64 { return 1 - roundedmath.Pow(done, power) }
	case "exp":
		ratio := cmp.Or(s.DecayRatio, 0.1)
		return func(done float64) float64 { return (roundedmath.Pow(ratio, done) - ratio) / (1 - ratio) }
	}
	return func(done float64) float64 { return 1 - math.Sqrt(done) }
}

// Validate implements [Validator].
func (s TimmWSD) Validate() error {
	c := checks{schedule: "TimmWSD"}
	c.timmWarmup(s.TimmWarmup)
	c.count("TInitial", s.TInitial)
	c.that(s.DecayT > 0, "DecayT", s.DecayT, "a positive number of updates")
	c.that(s.TInitial == 0 || s.DecayT <= s.TInitial, "DecayT", s.DecayT, "no more than TInitial")
	c.notNegative("LRMin", s.LRMin)
	switch s.StableFn {
	case "", "constant":
	case "rsqrt", "power":
		c.that(s.StableTimescale > 0 || s.StableTimescale == 0 && s.WarmupT > 0, "StableTimescale", s.StableTimescale,
			"a positive number of updates where there is no warmup")
	default:
		c.that(false, "StableFn", s.StableFn, `"constant", "rsqrt", "power", or "" for the first`)
	}
	c.notNegative("StablePower", s.StablePower)
	switch s.DecayFn {
	case "", "linear", "1-sqrt", "cosine", "power", "exp":
	default:
		c.that(false, "DecayFn", s.DecayFn, `"linear", "1-sqrt", "cosine", "power", "exp", or "" for "1-sqrt"`)
	}
	c.that(s.Decay == nil || s.DecayFn == "", "DecayFn", s.DecayFn, `"" beside a Decay: only one of them can be set`)
	c.notNegative("DecayPower", s.DecayPower)
	c.that(s.DecayRatio >= 0 && s.DecayRatio < 1, "DecayRatio", s.DecayRatio, "a number below 1, or 0 for 0.1")
	return c.err
}

// ValidatePlan implements [PlanValidator].
func (s TimmWSD) ValidatePlan(_ float64, updates int) error {
	c := checks{schedule: "TimmWSD"}
	c.that(s.DecayT <= s.length(updates), "DecayT", s.DecayT, "no more updates than the warmup leaves of the run")
	return c.err
}
