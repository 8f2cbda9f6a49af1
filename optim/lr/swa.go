package lr

import (
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
)

// SWALR moves the rate to SWALR and keeps it there, for the part of a run whose weights are
// averaged: torch.optim.swa_utils.SWALR. It starts at the current rate, so as the last schedule of
// a [SequentialLR] it continues from the previous one, with one update at that schedule's rate.
// For the averaged weights see optim.NewAveraged.
type SWALR struct {
	SWALR          float64 // the rate at the end (swa_lr)
	AnnealEpochs   *int    // updates until then (anneal_epochs); nil means 10
	AnnealStrategy Anneal  // empty means AnnealCos
}

// Plan implements [Schedule].
func (s SWALR) Plan(peak float64, updates int) Rate {
	rate, _ := planStepper(s, peak, updates)
	return rate
}

func (s SWALR) attach(g *group, _ int) stepper {
	length := optional.Or(s.AnnealEpochs, 10)
	share := func(step int) float64 {
		t := max(0, min(1, float64(step)/float64(max(1, length))))
		if s.AnnealStrategy == AnnealLinear {
			return t
		}
		return (1 - roundedmath.Cos(math.Pi*t)) / 2
	}
	return newScheduler(g, &scheduler{next: func(c *scheduler) float64 {
		step := c.steps - 1
		if length == 0 {
			step = max(1, step)
		}
		before, now := share(step-1), share(step)
		start := s.SWALR // start of the annealing, reconstructed from the rate of the last update
		if before != 1 {
			start = (c.g.lr - float64(before*s.SWALR)) / (1 - before)
		}
		return float64(s.SWALR*now) + float64(start*(1-now))
	}})
}

// Validate implements [Validator].
func (s SWALR) Validate() error {
	c := checks{schedule: "SWALR"}
	c.notNegative("SWALR", s.SWALR)
	c.count("AnnealEpochs", optional.Or(s.AnnealEpochs, 10))
	c.anneal(s.AnnealStrategy)
	return c.err
}
