package lr

import (
	"fmt"
	"maps"
	"slices"
)

// ByName makes a schedule from the names and arguments used in Python and in configuration files.
// It accepts
//
//   - transformers: the values of lr_scheduler_type ("cosine_with_restarts") and the functions
//     they stand for ("get_cosine_with_hard_restarts_schedule_with_warmup"), with the arguments of
//     lr_scheduler_kwargs;
//   - PyTorch: the classes of torch.optim.lr_scheduler ("OneCycleLR"), with the arguments of their
//     constructors;
//   - timm and pytorch-accelerated: their classes ("CosineLRScheduler" and "CosineLrScheduler").
//
// Warmup is warmup_steps of transformers.TrainingArguments: a number of updates or, below 1, a
// share of the run. Only the schedules of transformers use it. Functions among PyTorch's arguments
// (lr_lambda, scale_fn) are Go functions from an int or a float64 to a float64, and "schedulers"
// is a []Schedule or a list of maps with "name" and "kwargs".
//
// Values may come from encoding/json; nil is None. Arguments for the length of the run belong to
// Plan. last_epoch can only be -1, its default, since a schedule has no state. Errors are
// [*UnknownError], [*ArgumentError] and [*SettingError].
func ByName(name string, kwargs map[string]any, warmup float64) (Schedule, error) {
	canonical := canonicalName(name)
	build, takesWarmup := transformers[canonical]
	if !takesWarmup {
		var ok bool
		if build, ok = constructors[canonical]; !ok {
			if _, ok := adaptive[canonical]; ok {
				return nil, fmt.Errorf("lr: %q follows a measured value, not the number of the update: use "+
					"AdaptiveByName", name)
			}
			return nil, unknownName(name)
		}
	}
	a := &arguments{schedule: name, given: kwargs, byName: ByName}
	switch {
	case canonical == "constant" || !takesWarmup:
		if warmup != 0 {
			a.wrong("warmup", warmup,
				`0: this schedule has none of its own (transformers' "constant_with_warmup" has, and SequentialLR puts one before any other)`)
		}
	default:
		var steps float64
		if a.number("num_warmup_steps", &steps); steps != 0 {
			if warmup != 0 {
				a.wrong("num_warmup_steps", steps, "it in one place only: the warmup is given already")
			}
			warmup = steps
		}
	}
	s := build(a, warmup)
	if err := a.finish(); err != nil {
		return nil, err
	}
	if v, ok := s.(Validator); ok {
		if err := v.Validate(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// AdaptiveByName is like [ByName] for the schedules that follow a measured value:
// "reduce_lr_on_plateau" and "greedy" of transformers, ReduceLROnPlateau of PyTorch, and
// PlateauLRScheduler of timm. Settings are checked by Start.
func AdaptiveByName(name string, kwargs map[string]any) (Adaptive, error) {
	canonical := canonicalName(name)
	build, ok := adaptive[canonical]
	if !ok {
		if slices.Contains(Names(), canonical) {
			return nil, fmt.Errorf("lr: %q follows the number of the update, not a measured value: use ByName", name)
		}
		return nil, unknownName(name)
	}
	a := &arguments{schedule: name, given: kwargs}
	s := build(a)
	if err := a.finish(); err != nil {
		return nil, err
	}
	return s, nil
}

// Names returns the names that [ByName] and [AdaptiveByName] accept, sorted, without the functions
// of transformers.
func Names() []string {
	names := slices.Concat(slices.Collect(maps.Keys(transformers)), slices.Collect(maps.Keys(constructors)),
		slices.Collect(maps.Keys(adaptive)))
	slices.Sort(names)
	return names
}

func unknownName(name string) error {
	return &UnknownError{What: "schedule", Name: name, Known: Names()}
}

// functions maps functions and classes of transformers to the names that get_scheduler has for
// them.
var functions = map[string]string{
	"get_constant_schedule":                               "constant",
	"get_constant_schedule_with_warmup":                   "constant_with_warmup",
	"get_linear_schedule_with_warmup":                     "linear",
	"get_cosine_schedule_with_warmup":                     "cosine",
	"get_cosine_with_hard_restarts_schedule_with_warmup":  "cosine_with_restarts",
	"get_polynomial_decay_schedule_with_warmup":           "polynomial",
	"get_inverse_sqrt_schedule":                           "inverse_sqrt",
	"get_cosine_with_min_lr_schedule_with_warmup":         "cosine_with_min_lr",
	"get_cosine_with_min_lr_schedule_with_warmup_lr_rate": "cosine_warmup_with_min_lr",
	"get_wsd_schedule":                                    "warmup_stable_decay",
	"get_reduce_on_plateau_schedule":                      "reduce_lr_on_plateau",
	"get_greedy_schedule":                                 "greedy",
	"GreedyLR":                                            "greedy",
	"ReduceLROnPlateau":                                   "reduce_lr_on_plateau",
}

func canonicalName(name string) string {
	if short, ok := functions[name]; ok {
		return short
	}
	return name
}

// transformers contains the schedules that take a warmup.
var transformers = map[string]func(a *arguments, warmup float64) Schedule{
	"constant":             func(*arguments, float64) Schedule { return Constant{} },
	"constant_with_warmup": func(_ *arguments, warmup float64) Schedule { return ConstantWithWarmup{Warmup: warmup} },
	"linear":               func(_ *arguments, warmup float64) Schedule { return Linear{Warmup: warmup} },
	"cosine": func(a *arguments, warmup float64) Schedule {
		s := Cosine{Warmup: warmup}
		a.nonzero("num_cycles", &s.Cycles)
		return s
	},
	"cosine_with_restarts": func(a *arguments, warmup float64) Schedule {
		s := CosineWithRestarts{Warmup: warmup}
		a.nonzero("num_cycles", &s.Cycles)
		return s
	},
	"polynomial": func(a *arguments, warmup float64) Schedule {
		s := Polynomial{Warmup: warmup}
		a.optional("lr_end", &s.LREnd)
		a.optional("power", &s.Power)
		return s
	},
	"inverse_sqrt": func(a *arguments, warmup float64) Schedule {
		s := InverseSqrt{Warmup: warmup}
		a.nonzero("timescale", &s.Timescale)
		return s
	},
	"cosine_with_min_lr": func(a *arguments, warmup float64) Schedule {
		s := CosineWithMinLR{Warmup: warmup}
		a.nonzero("num_cycles", &s.Cycles)
		a.minRate(&s.MinLR, &s.MinLRRate)
		return s
	},
	"cosine_warmup_with_min_lr": func(a *arguments, warmup float64) Schedule {
		s := CosineWarmupWithMinLR{Warmup: warmup}
		a.nonzero("num_cycles", &s.Cycles)
		a.minRate(&s.MinLR, &s.MinLRRate)
		a.optional("warmup_lr_rate", &s.WarmupLRRate)
		return s
	},
	"warmup_stable_decay": func(a *arguments, warmup float64) Schedule {
		s := WarmupStableDecay{Warmup: warmup}
		a.required("num_decay_steps")
		a.count("num_decay_steps", &s.DecaySteps)
		a.optionalCount("num_stable_steps", &s.StableSteps)
		text(a, "warmup_type", &s.WarmupType)
		text(a, "decay_type", &s.DecayType)
		a.number("min_lr_ratio", &s.MinLRRatio)
		a.nonzero("num_cycles", &s.Cycles)
		return s
	},
}

// minRate reads the lowest rate of a cosine, which can be set in two ways; transformers requires
// exactly one of them.
func (a *arguments) minRate(minLR, minLRRate *float64) {
	a.number("min_lr", minLR)
	a.number("min_lr_rate", minLRRate)
	if a.given["min_lr"] == nil && a.given["min_lr_rate"] == nil {
		a.wrong("min_lr", nil, "it or min_lr_rate set")
	}
	if a.given["min_lr"] != nil && a.given["min_lr_rate"] != nil {
		a.wrong("min_lr_rate", a.given["min_lr_rate"], "only one of it and min_lr set")
	}
}

// adaptive contains the schedules of [AdaptiveByName].
var adaptive = map[string]func(a *arguments) Adaptive{
	"reduce_lr_on_plateau": func(a *arguments) Adaptive {
		var s ReduceLROnPlateau
		text(a, "mode", &s.Mode)
		a.nonzero("factor", &s.Factor)
		a.optionalCount("patience", &s.Patience)
		a.optional("threshold", &s.Threshold)
		text(a, "threshold_mode", &s.ThresholdMode)
		a.count("cooldown", &s.Cooldown)
		a.number("min_lr", &s.MinLR)
		a.optional("eps", &s.Eps)
		return s
	},
	"greedy": func(a *arguments) Adaptive {
		var s Greedy
		text(a, "mode", &s.Mode)
		a.nonzero("factor", &s.Factor)
		a.optionalCount("patience", &s.Patience)
		a.optional("threshold", &s.Threshold)
		text(a, "threshold_mode", &s.ThresholdMode)
		a.count("cooldown", &s.Cooldown)
		a.count("warmup", &s.Warmup)
		a.optional("min_lr", &s.MinLR)
		a.optional("max_lr", &s.MaxLR)
		a.optional("eps", &s.Eps)
		a.flag("smooth", &s.Smooth)
		a.positive("window_size", &s.WindowSize)
		a.optionalCount("reset_start", &s.ResetStart)
		return s
	},
	"PlateauLRScheduler": func(a *arguments) Adaptive {
		var s TimmPlateau
		a.timmWarmup(&s.TimmWarmup)
		a.nonzero("decay_rate", &s.DecayRate)
		a.optionalCount("patience_t", &s.PatienceT)
		a.optional("threshold", &s.Threshold)
		a.count("cooldown_t", &s.CooldownT)
		a.number("lr_min", &s.LRMin)
		text(a, "mode", &s.Mode)
		return s
	},
}
