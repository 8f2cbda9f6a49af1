package lr

// LambdaLR multiplies the peak rate by a function of the update: torch.optim.lr_scheduler.LambdaLR.
type LambdaLR struct {
	Lambda func(update int) float64 // lr_lambda; required
}

// Plan implements [Schedule].
func (l LambdaLR) Plan(peak float64, _ int) Rate {
	if l.Lambda == nil {
		return Constant{}.Plan(peak, 0)
	}
	return func(update int) float64 { return peak * l.Lambda(update) }
}

// Validate implements [Validator].
func (l LambdaLR) Validate() error { return validateLambda("LambdaLR", l.Lambda) }

// MultiplicativeLR multiplies the previous rate by a function of the update, starting with update
// 1: torch.optim.lr_scheduler.MultiplicativeLR.
type MultiplicativeLR struct {
	Lambda func(update int) float64 // lr_lambda; required
}

// Plan implements [Schedule].
func (m MultiplicativeLR) Plan(peak float64, updates int) Rate {
	rate, _ := planStepper(m, peak, updates)
	return rate
}

func (m MultiplicativeLR) attach(g *group, _ int) stepper {
	return newScheduler(g, &scheduler{next: func(s *scheduler) float64 {
		if s.initial || m.Lambda == nil {
			return s.g.lr
		}
		return s.g.lr * m.Lambda(s.epoch)
	}})
}

// Validate implements [Validator].
func (m MultiplicativeLR) Validate() error { return validateLambda("MultiplicativeLR", m.Lambda) }

func validateLambda(schedule string, lambda func(int) float64) error {
	c := checks{schedule: schedule}
	c.that(lambda != nil, "Lambda", "nil", "a function from the number of the update to a factor")
	return c.err
}
