package lr

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/roundedmath"
)

// CosineAnnealingLR decays along a cosine to EtaMin over TMax updates, and rises again afterwards:
// torch.optim.lr_scheduler.CosineAnnealingLR.
type CosineAnnealingLR struct {
	TMax   int     // updates of a decay (T_max); 0 means the whole run
	EtaMin float64 // the lowest rate (eta_min)
}

// Plan implements [Schedule].
func (a CosineAnnealingLR) Plan(peak float64, updates int) Rate {
	rate, _ := planStepper(a, peak, updates)
	return rate
}

func (a CosineAnnealingLR) attach(g *group, updates int) stepper {
	period := max(1, cmp.Or(a.TMax, updates))
	angle := func(epoch int) float64 { return math.Pi * float64(epoch) / float64(period) }
	return newScheduler(g, &scheduler{
		next: func(c *scheduler) float64 {
			switch {
			case c.initial:
				return c.g.lr
			case (c.epoch-1-period)%(2*period) == 0: // the last rate was the lowest, so the quotient below would be 0/0
				return c.g.lr + float64((c.base-a.EtaMin)*(1-roundedmath.Cos(math.Pi/float64(period))))/2
			}
			return float64((1+roundedmath.Cos(angle(c.epoch)))/(1+
				roundedmath.Cos(angle(c.epoch-1)))*(c.g.lr-a.EtaMin)) +
				a.EtaMin
		},
		closed: func(c *scheduler) float64 { return a.EtaMin + float64((c.base-a.EtaMin)*2)/2 },
	})
}

// Validate implements [Validator].
func (a CosineAnnealingLR) Validate() error {
	c := checks{schedule: "CosineAnnealingLR"}
	c.count("TMax", a.TMax)
	c.notNegative("EtaMin", a.EtaMin)
	return c.err
}

// CosineAnnealingWarmRestarts decays along a cosine to EtaMin over T0 updates, then again from the
// full peak over TMult times as many, and so on:
// torch.optim.lr_scheduler.CosineAnnealingWarmRestarts.
type CosineAnnealingWarmRestarts struct {
	T0     int     // updates of the first decay (T_0); 0 means the whole run
	TMult  int     // each decay is this many times as long as the previous one (T_mult); 0 means 1
	EtaMin float64 // the lowest rate (eta_min)
}

// Plan implements [Schedule].
func (a CosineAnnealingWarmRestarts) Plan(peak float64, updates int) Rate {
	first, mult := max(1, cmp.Or(a.T0, updates)), max(1, a.TMult)
	return func(update int) float64 {
		current, period := update, first
		if mult == 1 {
			current = update % first
		}
		for current >= period {
			current, period = current-period, period*mult
		}
		return a.EtaMin + float64((peak-a.EtaMin)*(1+roundedmath.Cos(math.Pi*float64(current)/float64(period))))/2
	}
}

// Validate implements [Validator].
func (a CosineAnnealingWarmRestarts) Validate() error {
	c := checks{schedule: "CosineAnnealingWarmRestarts"}
	c.count("T0", a.T0)
	c.that(a.TMult >= 0 && a.TMult <= math.MaxInt32, "TMult", a.TMult, "1 or more, or 0 for 1")
	c.notNegative("EtaMin", a.EtaMin)
	return c.err
}
