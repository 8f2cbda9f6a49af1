package lr

import (
	"cmp"
	"slices"

	"github.com/gotrainer/gotrainer/internal/roundedmath"
)

// StepLR multiplies the rate by Gamma every StepSize updates: torch.optim.lr_scheduler.StepLR.
type StepLR struct {
	StepSize int     // updates between two reductions (step_size); required
	Gamma    float64 // 0 means 0.1
}

// Plan implements [Schedule].
func (s StepLR) Plan(peak float64, updates int) Rate {
	rate, _ := planStepper(s, peak, updates)
	return rate
}

func (s StepLR) attach(g *group, _ int) stepper {
	gamma, size := cmp.Or(s.Gamma, 0.1), max(1, s.StepSize)
	return newScheduler(g, &scheduler{
		next: func(c *scheduler) float64 {
			if c.epoch == 0 || c.epoch%size != 0 {
				return c.g.lr
			}
			return c.g.lr * gamma
		},
		closed: func(c *scheduler) float64 { return c.base },
	})
}

// Validate implements [Validator].
func (s StepLR) Validate() error {
	c := checks{schedule: "StepLR"}
	c.that(s.StepSize > 0, "StepSize", s.StepSize, "a positive number of updates")
	c.notNegative("Gamma", s.Gamma)
	return c.err
}

// MultiStepLR multiplies the rate by Gamma at each of the Milestones:
// torch.optim.lr_scheduler.MultiStepLR.
type MultiStepLR struct {
	Milestones []int   // updates, in any order; one that is listed twice counts twice
	Gamma      float64 // 0 means 0.1
}

// Plan implements [Schedule].
func (m MultiStepLR) Plan(peak float64, updates int) Rate {
	rate, _ := planStepper(m, peak, updates)
	return rate
}

func (m MultiStepLR) attach(g *group, _ int) stepper {
	gamma, count := cmp.Or(m.Gamma, 0.1), map[int]int{}
	for _, update := range m.Milestones {
		count[update]++
	}
	return newScheduler(g, &scheduler{
		next: func(c *scheduler) float64 {
			if n := count[c.epoch]; n > 0 {
				return c.g.lr * roundedmath.Pow(gamma, float64(n))
			}
			return c.g.lr
		},
		closed: func(c *scheduler) float64 { return c.base * roundedmath.Pow(gamma, float64(count[0])) },
	})
}

// Validate implements [Validator].
func (m MultiStepLR) Validate() error {
	c := checks{schedule: "MultiStepLR"}
	c.that(len(m.Milestones) == 0 || slices.Min(m.Milestones) >= 0, "Milestones", m.Milestones,
		"numbers of updates, none of them negative")
	c.notNegative("Gamma", m.Gamma)
	return c.err
}
