package lr

import (
	"cmp"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
)

// defaultIters is the default of total_iters in PyTorch's ConstantLR, LinearLR and PolynomialLR.
const defaultIters = 5

// ConstantLR keeps the rate at a share of the peak for the first updates:
// torch.optim.lr_scheduler.ConstantLR.
type ConstantLR struct {
	Factor     float64 // share of the peak; 0 means 1/3
	TotalIters *int    // updates at the lower rate (total_iters); nil means 5
}

// Plan implements [Schedule].
func (r ConstantLR) Plan(peak float64, updates int) Rate {
	rate, _ := planStepper(r, peak, updates)
	return rate
}

func (r ConstantLR) attach(g *group, _ int) stepper {
	factor, total := cmp.Or(r.Factor, 1.0/3), optional.Or(r.TotalIters, defaultIters)
	return newScheduler(g, &scheduler{
		next: func(c *scheduler) float64 {
			switch c.epoch {
			case 0:
				return c.g.lr * factor
			case total:
				return c.g.lr * (1 / factor)
			}
			return c.g.lr
		},
		closed: func(c *scheduler) float64 {
			if total <= 0 {
				return c.base * (factor + (1 - factor))
			}
			return c.base * factor
		},
	})
}

// Validate implements [Validator].
func (r ConstantLR) Validate() error {
	c := checks{schedule: "ConstantLR"}
	c.share("Factor", r.Factor)
	c.count("TotalIters", optional.Or(r.TotalIters, 0))
	return c.err
}

// LinearLR moves the rate along a straight line from one share of the peak to another:
// torch.optim.lr_scheduler.LinearLR.
type LinearLR struct {
	StartFactor float64  // share of the peak at update 0 (start_factor); 0 means 1/3
	EndFactor   *float64 // share of the peak at update TotalIters and after it (end_factor); nil means 1
	TotalIters  int      // updates between the two (total_iters); 0 means 5
}

// Plan implements [Schedule].
func (l LinearLR) Plan(peak float64, updates int) Rate {
	rate, _ := planStepper(l, peak, updates)
	return rate
}

func (l LinearLR) attach(g *group, _ int) stepper {
	start, end, total := cmp.Or(l.StartFactor, 1.0/3), optional.Or(l.EndFactor, 1), cmp.Or(l.TotalIters, defaultIters)
	return newScheduler(g, &scheduler{
		next: func(c *scheduler) float64 {
			if c.epoch == 0 {
				return c.g.lr * start
			}
			if c.initial || c.epoch > total {
				return c.g.lr
			}
			return c.g.lr * (1 + (end-start)/(float64(float64(total)*start)+float64(float64(c.epoch-1)*(end-start))))
		},
		closed: func(c *scheduler) float64 { return c.base * start },
	})
}

// Validate implements [Validator].
func (l LinearLR) Validate() error {
	c := checks{schedule: "LinearLR"}
	c.share("StartFactor", l.StartFactor)
	c.share("EndFactor", optional.Or(l.EndFactor, 1))
	c.count("TotalIters", l.TotalIters)
	return c.err
}

// PolynomialLR decays the rate to 0 as a power of the remaining share of TotalIters:
// torch.optim.lr_scheduler.PolynomialLR.
type PolynomialLR struct {
	TotalIters int      // updates of the decay (total_iters); 0 means 5
	Power      *float64 // 1 is a straight line (power); nil means 1
}

// Plan implements [Schedule].
func (p PolynomialLR) Plan(peak float64, updates int) Rate {
	rate, _ := planStepper(p, peak, updates)
	return rate
}

func (p PolynomialLR) attach(g *group, _ int) stepper {
	total, power := float64(cmp.Or(p.TotalIters, defaultIters)), optional.Or(p.Power, 1)
	return newScheduler(g, &scheduler{
		next: func(c *scheduler) float64 {
			epoch := float64(c.epoch)
			if c.initial || epoch > total {
				return c.g.lr
			}
			return c.g.lr * roundedmath.Pow((1-epoch/total)/(1-(epoch-1)/total), power)
		},
		closed: func(c *scheduler) float64 { return c.base },
	})
}

// Validate implements [Validator].
func (p PolynomialLR) Validate() error {
	c := checks{schedule: "PolynomialLR"}
	c.count("TotalIters", p.TotalIters)
	c.notNegative("Power", optional.Or(p.Power, 1))
	return c.err
}

// ExponentialLR multiplies the rate by Gamma after each update:
// torch.optim.lr_scheduler.ExponentialLR.
type ExponentialLR struct {
	Gamma float64 // required
}

// Plan implements [Schedule].
func (e ExponentialLR) Plan(peak float64, updates int) Rate {
	rate, _ := planStepper(e, peak, updates)
	return rate
}

func (e ExponentialLR) attach(g *group, _ int) stepper {
	return newScheduler(g, &scheduler{
		next: func(c *scheduler) float64 {
			if c.initial {
				return c.g.lr
			}
			return c.g.lr * e.Gamma
		},
		closed: func(c *scheduler) float64 { return c.base },
	})
}

// Validate implements [Validator].
func (e ExponentialLR) Validate() error {
	c := checks{schedule: "ExponentialLR"}
	c.that(e.Gamma > 0 && e.Gamma <= 1e6, "Gamma", e.Gamma, "a positive factor")
	return c.err
}
