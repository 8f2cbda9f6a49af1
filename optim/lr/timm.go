package lr

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
)

// The schedules of timm (PyTorch Image Models), under their class names without "LRScheduler".
// Their unit is the update, as with t_in_epochs=False; [PerEpoch] gives them the epoch. Update 0
// has the rate that timm's constructors set: WarmupLRInit with a warmup, otherwise the peak.

// TimmWarmup is the start of every timm schedule: a straight line from WarmupLRInit to the peak.
type TimmWarmup struct {
	WarmupT      int     // updates of the warmup (warmup_t); 0: none
	WarmupLRInit float64 // the first rate of the warmup (warmup_lr_init)
}

// plan is _get_lr after the warmup, which ends at the rate target.
func (w TimmWarmup) plan(peak, target float64, rate Rate) Rate {
	step := (target - w.WarmupLRInit) / float64(max(1, w.WarmupT))
	return func(update int) float64 {
		switch {
		case update < w.WarmupT:
			return w.WarmupLRInit + float64(float64(update)*step)
		case update <= 0:
			return peak
		}
		return rate(update)
	}
}

// after makes a schedule start at the end of the warmup: warmup_prefix=True.
func (w TimmWarmup) after(prefix bool, rate Rate) Rate {
	if !prefix {
		return rate
	}
	return func(update int) float64 { return rate(update - w.WarmupT) }
}

func (c *checks) timmWarmup(w TimmWarmup) {
	c.count("WarmupT", w.WarmupT)
	c.notNegative("WarmupLRInit", w.WarmupLRInit)
}

// TimmCycles repeats a timm schedule. After the last cycle the rate is LRMin.
type TimmCycles struct {
	CycleMul   float64 // each cycle is this many times as long as the previous one (cycle_mul); 0 means 1
	CycleDecay float64 // and this many times as high (cycle_decay); 0 means 1
	CycleLimit int     // number of cycles (cycle_limit); 0 means 1
}

// at returns the index of the cycle, its length, and the position of the update in it.
func (c TimmCycles) at(update, initial int) (cycle int, length, current float64) {
	t, first, mul := float64(update), float64(initial), cmp.Or(c.CycleMul, 1)
	if mul == 1 {
		cycle = update / initial
		return cycle, first, t - float64(initial*cycle)
	}
	grown := 1 - float64(t/first*(1-mul))
	if !(grown > 0) { // shrinking cycles have ended
		return c.limit(), first, 0
	}
	n := math.Floor(roundedmath.Log(grown) / roundedmath.Log(mul))
	length = roundedmath.Pow(mul, n) * first
	return int(n), length, t - float64((1-roundedmath.Pow(mul, n))/(1-mul)*first)
}

func (c TimmCycles) limit() int { return cmp.Or(c.CycleLimit, 1) }

// plan is the common part of the cosine, polynomial and hyperbolic tangent schedules.
func (c TimmCycles) plan(peak float64, initial int, lrMin float64, value func(high, current,
	length float64) float64) Rate {
	decay := cmp.Or(c.CycleDecay, 1)
	return func(update int) float64 {
		cycle, length, current := c.at(update, max(1, initial))
		if cycle >= c.limit() {
			return lrMin
		}
		return value(peak*roundedmath.Pow(decay, float64(cycle)), current, length)
	}
}

func (c *checks) timmCycles(k TimmCycles, initial int, lrMin float64) {
	c.count("TInitial", initial)
	c.notNegative("LRMin", lrMin)
	c.notNegative("CycleMul", k.CycleMul)
	c.notNegative("CycleDecay", k.CycleDecay)
	c.count("CycleLimit", k.CycleLimit)
}

// TimmCosine is timm's CosineLRScheduler: one or more decays along a cosine, with k-decay.
type TimmCosine struct {
	TimmWarmup
	TimmCycles
	WarmupPrefix bool    // the first cycle starts after the warmup instead of during it
	TInitial     int     // updates of the first cycle (t_initial); 0 means the whole run
	LRMin        float64 // the lowest rate (lr_min)
	KDecay       float64 // above 1 the rate stays high for longer (k_decay); 0 means 1
}

// Plan implements [Schedule].
func (s TimmCosine) Plan(peak float64, updates int) Rate {
	k := cmp.Or(s.KDecay, 1)
	rate := s.TimmCycles.plan(peak, cmp.Or(s.TInitial, updates), s.LRMin, func(high, current, length float64) float64 {
		return s.LRMin + float64(0.5*(high-s.LRMin)*(1+roundedmath.Cos(math.Pi*roundedmath.Pow(current,
			k)/roundedmath.Pow(length,
			k))))
	})
	return s.TimmWarmup.plan(peak, peak, s.after(s.WarmupPrefix, rate))
}

// Validate implements [Validator].
func (s TimmCosine) Validate() error {
	c := checks{schedule: "TimmCosine"}
	c.timmWarmup(s.TimmWarmup)
	c.timmCycles(s.TimmCycles, s.TInitial, s.LRMin)
	c.notNegative("KDecay", s.KDecay)
	return c.err
}

// TimmPoly is timm's PolyLRScheduler: a decay as a power of the remaining share of the cycle, with
// k-decay.
type TimmPoly struct {
	TimmWarmup
	TimmCycles
	WarmupPrefix bool    // the first cycle starts after the warmup instead of during it
	TInitial     int     // updates of the first cycle (t_initial); 0 means the whole run
	Power        float64 // 0 means 0.5
	LRMin        float64 // the lowest rate (lr_min)
	KDecay       float64 // above 1 the rate stays high for longer (k_decay); 0 means 1
}

// Plan implements [Schedule].
func (s TimmPoly) Plan(peak float64, updates int) Rate {
	k, power := cmp.Or(s.KDecay, 1), cmp.Or(s.Power, 0.5)
	rate := s.TimmCycles.plan(peak, cmp.Or(s.TInitial, updates), s.LRMin, func(high, current, length float64) float64 {
		return s.LRMin + float64((high-s.LRMin)*roundedmath.Pow(1-roundedmath.Pow(current, k)/roundedmath.Pow(length,
			k), power))
	})
	return s.TimmWarmup.plan(peak, peak, s.after(s.WarmupPrefix, rate))
}

// Validate implements [Validator].
func (s TimmPoly) Validate() error {
	c := checks{schedule: "TimmPoly"}
	c.timmWarmup(s.TimmWarmup)
	c.timmCycles(s.TimmCycles, s.TInitial, s.LRMin)
	c.notNegative("Power", s.Power)
	c.notNegative("KDecay", s.KDecay)
	return c.err
}

// TimmTanh is timm's TanhLRScheduler: a decay along a hyperbolic tangent. Its rates agree with
// timm's to a few units in the last place, but not always to the last bit, since no two libraries
// agree on tanh.
type TimmTanh struct {
	TimmWarmup
	TimmCycles
	WarmupPrefix bool     // the first cycle starts after the warmup instead of during it
	TInitial     int      // updates of the first cycle (t_initial); 0 means the whole run
	LB           *float64 // the argument of tanh at the start (lb); nil means -7
	UB           *float64 // and at the end (ub); nil means 3
	LRMin        float64  // the lowest rate (lr_min)
}

// Plan implements [Schedule].
func (s TimmTanh) Plan(peak float64, updates int) Rate {
	lb, ub := optional.Or(s.LB, -7), optional.Or(s.UB, 3)
	rate := s.TimmCycles.plan(peak, cmp.Or(s.TInitial, updates), s.LRMin, func(high, current, length float64) float64 {
		done := current / length
		return s.LRMin + float64(0.5*(high-s.LRMin)*(1-math.Tanh(float64(lb*(1-done))+float64(ub*done))))
	})
	target := peak
	if !s.WarmupPrefix {
		target = rate(s.WarmupT)
	}
	return s.TimmWarmup.plan(peak, target, s.after(s.WarmupPrefix, rate))
}

// Validate implements [Validator].
func (s TimmTanh) Validate() error {
	c := checks{schedule: "TimmTanh"}
	c.timmWarmup(s.TimmWarmup)
	c.timmCycles(s.TimmCycles, s.TInitial, s.LRMin)
	c.that(optional.Or(s.LB, -7) < optional.Or(s.UB, 3), "LB", optional.Or(s.LB, -7), "less than UB")
	return c.err
}
