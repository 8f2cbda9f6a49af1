package lr

import "fmt"

// constructors contains the classes of PyTorch, timm and pytorch-accelerated for [ByName]. The
// second parameter is the warmup, which they do not take.
var constructors = map[string]func(a *arguments, _ float64) Schedule{
	// torch.optim.lr_scheduler
	"LambdaLR": func(a *arguments, _ float64) Schedule {
		var s LambdaLR
		a.required("lr_lambda")
		value(a, "lr_lambda", &s.Lambda, "a func(int) float64")
		return s
	},
	"MultiplicativeLR": func(a *arguments, _ float64) Schedule {
		var s MultiplicativeLR
		a.required("lr_lambda")
		value(a, "lr_lambda", &s.Lambda, "a func(int) float64")
		return s
	},
	"StepLR": func(a *arguments, _ float64) Schedule {
		var s StepLR
		a.required("step_size")
		a.count("step_size", &s.StepSize)
		a.nonzero("gamma", &s.Gamma)
		return s
	},
	"MultiStepLR": func(a *arguments, _ float64) Schedule {
		var s MultiStepLR
		a.required("milestones")
		a.counts("milestones", &s.Milestones)
		a.nonzero("gamma", &s.Gamma)
		return s
	},
	"ConstantLR": func(a *arguments, _ float64) Schedule {
		var s ConstantLR
		a.nonzero("factor", &s.Factor)
		a.optionalCount("total_iters", &s.TotalIters)
		return s
	},
	"LinearLR": func(a *arguments, _ float64) Schedule {
		var s LinearLR
		a.nonzero("start_factor", &s.StartFactor)
		a.optional("end_factor", &s.EndFactor)
		a.positive("total_iters", &s.TotalIters)
		return s
	},
	"PolynomialLR": func(a *arguments, _ float64) Schedule {
		var s PolynomialLR
		a.positive("total_iters", &s.TotalIters)
		a.optional("power", &s.Power)
		return s
	},
	"ExponentialLR": func(a *arguments, _ float64) Schedule {
		var s ExponentialLR
		a.required("gamma")
		a.number("gamma", &s.Gamma)
		return s
	},
	"CosineAnnealingLR": func(a *arguments, _ float64) Schedule {
		var s CosineAnnealingLR
		a.positive("T_max", &s.TMax)
		a.number("eta_min", &s.EtaMin)
		return s
	},
	"CosineAnnealingWarmRestarts": func(a *arguments, _ float64) Schedule {
		var s CosineAnnealingWarmRestarts
		a.positive("T_0", &s.T0)
		a.positive("T_mult", &s.TMult)
		a.number("eta_min", &s.EtaMin)
		return s
	},
	"CyclicLR": func(a *arguments, _ float64) Schedule {
		var s CyclicLR
		a.required("base_lr")
		a.number("base_lr", &s.BaseLR)
		a.nonzero("max_lr", &s.MaxLR)
		a.positive("step_size_up", &s.StepSizeUp)
		a.positive("step_size_down", &s.StepSizeDown)
		text(a, "mode", &s.Mode)
		a.nonzero("gamma", &s.Gamma)
		value(a, "scale_fn", &s.ScaleFn, "a func(float64) float64")
		scaleMode := "cycle"
		text(a, "scale_mode", &scaleMode)
		s.ScaleByUpdate = scaleMode == "iterations"
		if !s.ScaleByUpdate && scaleMode != "cycle" {
			a.wrong("scale_mode", scaleMode, `"cycle" or "iterations"`)
		}
		a.off("cycle_momentum", &s.FixedMomentum)
		a.optional("base_momentum", &s.BaseMomentum)
		a.optional("max_momentum", &s.MaxMomentum)
		return s
	},
	"OneCycleLR": func(a *arguments, _ float64) Schedule {
		var s OneCycleLR
		a.nonzero("max_lr", &s.MaxLR)
		a.positive("total_steps", &s.TotalSteps)
		// as in PyTorch, total_steps takes precedence
		if cycle := a.product("epochs", "steps_per_epoch"); s.TotalSteps == 0 {
			s.TotalSteps = cycle
		}
		a.optional("pct_start", &s.PctStart)
		text(a, "anneal_strategy", &s.AnnealStrategy)
		a.nonzero("div_factor", &s.DivFactor)
		a.nonzero("final_div_factor", &s.FinalDivFactor)
		a.flag("three_phase", &s.ThreePhase)
		a.off("cycle_momentum", &s.FixedMomentum)
		a.optional("base_momentum", &s.BaseMomentum)
		a.optional("max_momentum", &s.MaxMomentum)
		return s
	},
	"SequentialLR": func(a *arguments, _ float64) Schedule {
		var s SequentialLR
		a.required("schedulers", "milestones")
		a.schedules("schedulers", &s.Schedules)
		a.counts("milestones", &s.Milestones)
		return s
	},
	"ChainedScheduler": func(a *arguments, _ float64) Schedule {
		var s ChainedScheduler
		a.required("schedulers")
		a.schedules("schedulers", &s.Schedules)
		return s
	},

	// timm.scheduler
	"CosineLRScheduler": func(a *arguments, _ float64) Schedule {
		var s TimmCosine
		a.timmWarmup(&s.TimmWarmup)
		a.timmCycles(&s.TimmCycles, &s.TInitial, &s.LRMin)
		a.flag("warmup_prefix", &s.WarmupPrefix)
		a.nonzero("k_decay", &s.KDecay)
		return a.timmNoise(s)
	},
	"PolyLRScheduler": func(a *arguments, _ float64) Schedule {
		var s TimmPoly
		a.timmWarmup(&s.TimmWarmup)
		a.timmCycles(&s.TimmCycles, &s.TInitial, &s.LRMin)
		a.flag("warmup_prefix", &s.WarmupPrefix)
		a.nonzero("power", &s.Power)
		a.nonzero("k_decay", &s.KDecay)
		return a.timmNoise(s)
	},
	"TanhLRScheduler": func(a *arguments, _ float64) Schedule {
		var s TimmTanh
		a.timmWarmup(&s.TimmWarmup)
		a.timmCycles(&s.TimmCycles, &s.TInitial, &s.LRMin)
		a.flag("warmup_prefix", &s.WarmupPrefix)
		a.optional("lb", &s.LB)
		a.optional("ub", &s.UB)
		return a.timmNoise(s)
	},
	"StepLRScheduler": func(a *arguments, _ float64) Schedule {
		var s TimmStep
		a.timmWarmup(&s.TimmWarmup)
		a.off("warmup_prefix", &s.WarmupBeneath)
		a.required("decay_t")
		a.number("decay_t", &s.DecayT)
		a.optional("decay_rate", &s.DecayRate)
		return a.timmNoise(s)
	},
	"MultiStepLRScheduler": func(a *arguments, _ float64) Schedule {
		var s TimmMultiStep
		a.timmWarmup(&s.TimmWarmup)
		a.off("warmup_prefix", &s.WarmupBeneath)
		a.required("decay_t")
		a.counts("decay_t", &s.DecayT)
		a.optional("decay_rate", &s.DecayRate)
		return a.timmNoise(s)
	},
	"WSDLRScheduler": func(a *arguments, _ float64) Schedule {
		var s TimmWSD
		a.timmWarmup(&s.TimmWarmup)
		a.positive("t_initial", &s.TInitial)
		a.required("decay_t")
		a.count("decay_t", &s.DecayT)
		a.number("lr_min", &s.LRMin)
		text(a, "stable_fn", &s.StableFn)
		a.nonzero("stable_timescale", &s.StableTimescale)
		a.nonzero("stable_power", &s.StablePower)
		text(a, "decay_fn", &s.DecayFn)
		a.nonzero("decay_power", &s.DecayPower)
		a.nonzero("decay_ratio", &s.DecayRatio)
		return a.timmNoise(s)
	},

	// pytorch_accelerated.schedulers
	"CosineLrScheduler": func(a *arguments, _ float64) Schedule {
		var s PytorchAcceleratedCosine
		s.TotalSteps = a.product("total_num_epochs", "num_update_steps_per_epoch")
		a.nonzero("k_decay", &s.KDecay)
		a.optional("lr_min", &s.LRMin)
		a.optional("min_lr_ratio", &s.MinLRRatio)
		s.WarmupSteps = a.product("num_warmup_epochs", "num_update_steps_per_epoch")
		a.optional("warmup_starting_lr", &s.WarmupStartingLR)
		a.optional("warmup_starting_lr_ratio", &s.WarmupStartingLRRatio)
		s.CooldownSteps = a.product("num_cooldown_epochs", "num_update_steps_per_epoch")
		return s
	},
	"WSDLrScheduler": func(a *arguments, _ float64) Schedule {
		var s PytorchAcceleratedWSD
		a.positive("total_steps", &s.TotalSteps)
		if s.TotalSteps == 0 {
			s.TotalSteps = a.product("num_epochs", "num_update_steps_per_epoch")
		}
		a.count("num_warmup_steps", &s.WarmupSteps)
		a.optional("decay_phase_ratio", &s.DecayPhaseRatio)
		a.optional("lr_min", &s.LRMin)
		a.optional("warmup_starting_lr", &s.WarmupStartingLR)
		sqrt := true
		a.flag("use_inverse_sqrt_decay", &sqrt)
		s.InverseProportion = !sqrt
		a.positive("num_checkpoints", &s.Checkpoints)
		a.flag("is_continuation_from_checkpoint", &s.Continuation)
		return s
	},
}

func (a *arguments) timmWarmup(w *TimmWarmup) {
	a.count("warmup_t", &w.WarmupT)
	a.number("warmup_lr_init", &w.WarmupLRInit)
}

func (a *arguments) timmCycles(c *TimmCycles, initial *int, lrMin *float64) {
	a.positive("t_initial", initial)
	a.number("lr_min", lrMin)
	a.nonzero("cycle_mul", &c.CycleMul)
	a.nonzero("cycle_decay", &c.CycleDecay)
	a.positive("cycle_limit", &c.CycleLimit)
}

// timmNoise adds noise to a schedule if noise_range_t is given: the first update with noise, or a
// list of that and the first update without.
func (a *arguments) timmNoise(s Schedule) Schedule {
	n := TimmNoise{Schedule: s}
	a.nonzero("noise_pct", &n.Pct)
	a.nonzero("noise_std", &n.Std)
	var seed *int
	if a.optionalCount("noise_seed", &seed); seed != nil {
		n.Seed = new(uint32(*seed))
	}
	given, ok := a.take("noise_range_t")
	if !ok {
		if n.Pct != 0 || n.Std != 0 || seed != nil {
			a.wrong("noise_range_t", nil, "it set beside noise_pct, noise_std or noise_seed")
		}
		return s
	}
	if from, single := toInt(given); single {
		n.From = from
		return n
	}
	var ends []int
	if a.counts("noise_range_t", &ends); len(ends) != 2 {
		a.wrong("noise_range_t", given, "the first update with noise, or a list of that and the first one without")
		return s
	}
	n.From, n.To = ends[0], ends[1]
	return n
}

// product returns a number of updates that is given as epochs and updates per epoch, or 0 if there
// are no epochs.
func (a *arguments) product(epochs, perEpoch string) int {
	var n, per int
	a.count(epochs, &n)
	a.count(perEpoch, &per)
	if n != 0 && per == 0 {
		a.wrong(perEpoch, nil, "it set beside "+epochs)
	}
	return n * per
}

// schedules reads a list of schedules or of maps that describe schedules.
func (a *arguments) schedules(name string, field *[]Schedule) {
	v, ok := a.take(name)
	if !ok {
		return
	}
	const want = `a []Schedule, or a list of maps with "name" and "kwargs"`
	switch v := v.(type) {
	case []Schedule:
		*field = v
	case []any:
		for i, element := range v {
			part, ok := element.(map[string]any)
			if !ok {
				a.wrong(name, element, want)
				return
			}
			s, err := a.part(fmt.Sprintf("%s[%d]", name, i), part)
			if err != nil {
				if a.err == nil {
					a.err = fmt.Errorf("%s.%s[%d]: %w", a.schedule, name, i, err)
				}
				return
			}
			*field = append(*field, s)
		}
	default:
		a.wrong(name, v, want)
	}
}

// part builds a schedule from a map with "name", "kwargs" and "warmup".
func (a *arguments) part(where string, given map[string]any) (Schedule, error) {
	var name string
	var warmup float64
	kwargs := map[string]any{}
	p := &arguments{schedule: where, given: given}
	p.required("name")
	text(p, "name", &name)
	value(p, "kwargs", &kwargs, "a map of arguments")
	p.number("warmup", &warmup)
	if err := p.finish(); err != nil {
		return nil, err
	}
	return a.byName(name, kwargs, warmup)
}
