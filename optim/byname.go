package optim

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/internal/optional"
)

// Arguments are the settings of Hugging Face's TrainingArguments for the optimizer, with the same
// names and defaults.
type Arguments struct {
	LearningRate float64  // learning_rate; zero means 5e-5
	WeightDecay  float64  // weight_decay, for groups without a weight decay of their own
	AdamBeta1    *float64 // adam_beta1; nil means 0.9
	AdamBeta2    *float64 // adam_beta2; nil means 0.999
	AdamEpsilon  *float64 // adam_epsilon; nil means 1e-8

	// WarmupSteps is warmup_steps. Only the schedule-free optimizers use it; for others, warmup is
	// a matter of the schedule.
	WarmupSteps int

	// OptimArgs is optim_args, "momentum=0.9,nesterov=true": settings that only this optimizer
	// has, under PyTorch's names. [ByName] refuses unknown settings, which Hugging Face's Trainer
	// ignores.
	OptimArgs string
}

// ByName returns the optimizer settings that the Trainer of transformers 5.17 makes from its
// argument optim: "adamw_torch_fused", its default, and the other OptimizerNames except five.
// Those five need a TPU or an NPU, depend on packages that are no longer developed, or compute in
// 4 bits. They are refused with [ErrOption], and the error says what to use instead. ByName also
// accepts, by their lower-case names, optimizers of torch.optim that Hugging Face does not offer
// and optimizers of this package: "adam", "adamax", "nadam", "radam", "adadelta", "asgd", "rprop",
// "muon", "lion" and "lamb". docs/optimizers.md has the table.
//
//	builder, err := optim.ByName("sgd", optim.Arguments{LearningRate: 0.1, OptimArgs: "momentum=0.9,nesterov=true"})
//
// All but "adamw_torch_fused" compute as the original does on a CPU with its default settings; see
// [PyTorchDefault]. GaLore and APOLLO need the groups of [LowRankGroups]. The names that end in
// _layerwise, "lomo" and "adalomo" make a [BackwardUpdater], and those that start with
// "schedule_free_" a [ModeSwitcher]. The 8-bit optimizers keep the states of embeddings in 32 bits
// if their names are given to [KeepIn32Bits].
func ByName(name string, a Arguments) (Builder, error) {
	make, known := byName[name]
	if !known {
		for _, r := range refused {
			if slices.Contains(r.names, name) {
				return nil, errorf(ErrOption, "%q is not available: %s", name, r.reason)
			}
		}
		return nil, errorf(ErrOption, "there is no optimizer %q; want one of %s", name, strings.Join(Names(), ", "))
	}
	given, err := parseArgs(name, a.OptimArgs)
	if err != nil {
		return nil, err
	}
	a.LearningRate = cmp.Or(a.LearningRate, 5e-5)
	builder := make(a, given)
	if err := given.err(name); err != nil {
		return nil, err
	}
	return builder, nil
}

// Names returns the names that [ByName] accepts, sorted.
func Names() []string { return slices.Sorted(maps.Keys(byName)) }

var byName = map[string]func(a Arguments, g *args) Builder{
	"adamw_torch_fused": func(a Arguments, _ *args) Builder { return a.adamW(Fused) },
	"adamw_torch":       func(a Arguments, _ *args) Builder { return a.adamW(PyTorchDefault) },
	"adafactor":         func(a Arguments, _ *args) Builder { return a.adafactor() },
	"sgd": func(a Arguments, g *args) Builder {
		return SGD{LR: a.LearningRate, Momentum: g.number("momentum", 0), Dampening: g.number("dampening", 0),
			Nesterov:    g.flag("nesterov"),
			WeightDecay: &a.WeightDecay, Implementation: PyTorchDefault}
	},
	"adagrad": func(a Arguments, g *args) Builder {
		return Adagrad{LR: a.LearningRate, LRDecay: g.number("lr_decay", 0), Eps: g.pointer("eps"),
			WeightDecay: &a.WeightDecay, Implementation: PyTorchDefault}
	},
	"rmsprop": func(a Arguments, g *args) Builder {
		return RMSprop{LR: a.LearningRate, Momentum: g.number("momentum", 0), Alpha: g.pointer("alpha"),
			Eps:      g.pointer("eps"),
			Centered: g.flag("centered"), WeightDecay: &a.WeightDecay, Implementation: PyTorchDefault}
	},
	// transformers passes only the learning rate to these optimizers, but no betas, epsilon or
	// weight decay.
	"galore_adamw": func(a Arguments, g *args) Builder {
		return a.galore(g)
	},
	"galore_adamw_8bit":           func(a Arguments, g *args) Builder { return a.galore8bit(g) },
	"galore_adafactor":            func(a Arguments, g *args) Builder { return a.galoreAdafactor(g) },
	"galore_adamw_layerwise":      func(a Arguments, g *args) Builder { return LayerWise{a.galore(g)} },
	"galore_adamw_8bit_layerwise": func(a Arguments, g *args) Builder { return LayerWise{a.galore8bit(g)} },
	"galore_adafactor_layerwise":  func(a Arguments, g *args) Builder { return LayerWise{a.galoreAdafactor(g)} },
	"apollo_adamw":                func(a Arguments, g *args) Builder { return a.apollo(g) },
	"apollo_adamw_layerwise":      func(a Arguments, g *args) Builder { return LayerWise{a.apollo(g)} },

	"schedule_free_adamw": func(a Arguments, g *args) Builder {
		return AdamWScheduleFree{LR: a.LearningRate, Beta1: or1(a.AdamBeta1, 0.9), Beta2: or1(a.AdamBeta2, 0.999),
			Eps: or1(a.AdamEpsilon, 1e-8), WeightDecay: &a.WeightDecay, WarmupSteps: a.WarmupSteps,
			R: g.number("r", 0), WeightLRPower: g.pointer("weight_lr_power")}
	},
	"schedule_free_radam": func(a Arguments, g *args) Builder {
		return RAdamScheduleFree{LR: a.LearningRate, Beta1: or1(a.AdamBeta1, 0.9), Beta2: or1(a.AdamBeta2, 0.999),
			Eps: or1(a.AdamEpsilon, 1e-8), WeightDecay: &a.WeightDecay, R: g.number("r", 0),
			WeightLRPower: g.pointer("weight_lr_power")}
	},
	"schedule_free_sgd": func(a Arguments, g *args) Builder {
		return SGDScheduleFree{LR: a.LearningRate, WeightDecay: &a.WeightDecay, WarmupSteps: a.WarmupSteps,
			R: g.number("r", 0), WeightLRPower: g.pointer("weight_lr_power")}
	},
	"stable_adamw": func(a Arguments, g *args) Builder {
		return StableAdamW{LR: a.LearningRate, Beta1: or1(a.AdamBeta1, 0.9), Beta2: or1(a.AdamBeta2, 0.999),
			Eps: or1(a.AdamEpsilon, 1e-8), WeightDecay: &a.WeightDecay, MaxLR: g.number("max_lr", 0),
			DecoupleLR: g.flag("decouple_lr"), KahanSum: g.optionalFlag("kahan_sum")}
	},
	// transformers passes only the learning rate to this optimizer, besides its own settings.
	"grokadamw": func(a Arguments, g *args) Builder {
		return GrokAdamW{LR: a.LearningRate, WeightDecay: &a.WeightDecay, AlphaInit: g.pointer("alpha_init"),
			Lamb: g.pointer("lamb"), Gamma: g.pointer("gamma"),
			GrokkingSignalDecayRate: g.pointer("grokking_signal_decay_rate"),
			GradientClipping:        g.pointer("gradient_clipping")}
	},
	"lomo": func(a Arguments, g *args) Builder {
		g.none(a.WeightDecay != 0, "weight_decay", "transformers gives LOMO none; set it in LOMO")
		return LOMO{LR: a.LearningRate}
	},
	"adalomo": func(a Arguments, g *args) Builder {
		g.none(a.WeightDecay != 0, "weight_decay", "transformers gives AdaLOMO none; set it in AdaLOMO")
		return AdaLOMO{LR: a.LearningRate}
	},

	// "Paged" means that bitsandbytes may move the states to the host; on a CPU there is no
	// difference.
	"adamw_bnb_8bit":       func(a Arguments, _ *args) Builder { return a.adamW8bit() },
	"adamw_8bit":           func(a Arguments, _ *args) Builder { return a.adamW8bit() },
	"paged_adamw_8bit":     func(a Arguments, _ *args) Builder { return a.adamW8bit() },
	"paged_adamw_32bit":    func(a Arguments, _ *args) Builder { return a.adamW32bit() },
	"lion_8bit":            func(a Arguments, _ *args) Builder { return a.lion8bit() },
	"paged_lion_8bit":      func(a Arguments, _ *args) Builder { return a.lion8bit() },
	"lion_32bit":           func(a Arguments, _ *args) Builder { return a.lion32bit() },
	"paged_lion_32bit":     func(a Arguments, _ *args) Builder { return a.lion32bit() },
	"ademamix":             func(a Arguments, g *args) Builder { return a.adEMAMix(g) },
	"paged_ademamix_32bit": func(a Arguments, g *args) Builder { return a.adEMAMix(g) },
	"ademamix_8bit":        func(a Arguments, g *args) Builder { return a.adEMAMix8bit(g) },
	"paged_ademamix_8bit":  func(a Arguments, g *args) Builder { return a.adEMAMix8bit(g) },
	"rmsprop_bnb":          func(a Arguments, g *args) Builder { return a.rmsprop32bit(g) },
	"rmsprop_bnb_32bit":    func(a Arguments, g *args) Builder { return a.rmsprop32bit(g) },
	"rmsprop_bnb_8bit": func(a Arguments, g *args) Builder {
		o := a.rmsprop32bit(g)
		return RMSprop8bit{LR: o.LR, Alpha: o.Alpha, Eps: o.Eps, WeightDecay: o.WeightDecay}
	},

	"adam": func(a Arguments, g *args) Builder {
		return Adam{LR: a.LearningRate, Beta1: or1(a.AdamBeta1, 0.9), Beta2: or1(a.AdamBeta2, 0.999),
			Eps: or1(a.AdamEpsilon, 1e-8), WeightDecay: &a.WeightDecay,
			AMSGrad: g.flag("amsgrad"), DecoupledDecay: g.flag("decoupled_weight_decay"),
			Implementation: PyTorchDefault}
	},
	"adamax": func(a Arguments, _ *args) Builder {
		return Adamax{LR: a.LearningRate, Beta1: or1(a.AdamBeta1, 0.9), Beta2: or1(a.AdamBeta2, 0.999),
			Eps: or1(a.AdamEpsilon, 1e-8), WeightDecay: &a.WeightDecay}
	},
	"nadam": func(a Arguments, g *args) Builder {
		return NAdam{LR: a.LearningRate, Beta1: or1(a.AdamBeta1, 0.9), Beta2: or1(a.AdamBeta2, 0.999),
			Eps: or1(a.AdamEpsilon, 1e-8), WeightDecay: &a.WeightDecay,
			MomentumDecay: g.pointer("momentum_decay"), DecoupledDecay: g.flag("decoupled_weight_decay")}
	},
	"radam": func(a Arguments, g *args) Builder {
		return RAdam{LR: a.LearningRate, Beta1: or1(a.AdamBeta1, 0.9), Beta2: or1(a.AdamBeta2, 0.999),
			Eps: or1(a.AdamEpsilon, 1e-8), WeightDecay: &a.WeightDecay,
			DecoupledDecay: g.flag("decoupled_weight_decay")}
	},
	"adadelta": func(a Arguments, g *args) Builder {
		return Adadelta{LR: a.LearningRate, Rho: g.pointer("rho"), Eps: g.pointer("eps"), WeightDecay: &a.WeightDecay}
	},
	"asgd": func(a Arguments, g *args) Builder {
		return ASGD{LR: a.LearningRate, Lambda: g.pointer("lambd"), Alpha: g.pointer("alpha"), T0: g.pointer("t0"),
			WeightDecay: &a.WeightDecay}
	},
	"rprop": func(a Arguments, g *args) Builder {
		g.none(a.WeightDecay != 0, "weight_decay", "it has no weight decay")
		return Rprop{LR: a.LearningRate, EtaMinus: g.pointer("etaminus"), EtaPlus: g.pointer("etaplus"),
			MinStep: g.pointer("min_step"), MaxStep: g.pointer("max_step")}
	},
	"muon": func(a Arguments, g *args) Builder {
		return Muon{LR: a.LearningRate, Momentum: g.pointer("momentum"), Eps: g.pointer("eps"),
			WeightDecay: &a.WeightDecay}
	},
	"lion": func(a Arguments, _ *args) Builder {
		return Lion{LR: a.LearningRate, Beta1: or1(a.AdamBeta1, 0.9), Beta2: or1(a.AdamBeta2, 0.999),
			WeightDecay: &a.WeightDecay}
	},
	"lamb": func(a Arguments, _ *args) Builder {
		return LAMB{LR: a.LearningRate, Beta1: or1(a.AdamBeta1, 0.9), Beta2: or1(a.AdamBeta2, 0.999),
			Eps: or1(a.AdamEpsilon, 1e-8), WeightDecay: &a.WeightDecay}
	},
}

func (a Arguments) adamW(i Implementation) Builder {
	return AdamW{LR: a.LearningRate, Beta1: or1(a.AdamBeta1, 0.9), Beta2: or1(a.AdamBeta2, 0.999),
		Eps: or1(a.AdamEpsilon, 1e-8), WeightDecay: &a.WeightDecay, Implementation: i}
}

func (a Arguments) adafactor() AdafactorHF {
	return AdafactorHF{LR: a.LearningRate, WeightDecay: &a.WeightDecay, ScaleParameter: new(false),
		RelativeStep: new(false)}
}

func (a Arguments) galore(g *args) GaLoreAdamW {
	g.none(a.WeightDecay != 0, "weight_decay", "transformers gives GaLore none; set it in GaLoreAdamW")
	return GaLoreAdamW{LR: a.LearningRate, LowRank: g.lowRank()}
}

// galore8bit leaves WeightDecay at the default of its class, 1e-2.
func (a Arguments) galore8bit(g *args) GaLoreAdamW8bit {
	g.none(a.WeightDecay != 0, "weight_decay", "transformers gives GaLore none; set it in GaLoreAdamW8bit")
	return GaLoreAdamW8bit{LR: a.LearningRate, LowRank: g.lowRank()}
}

func (a Arguments) galoreAdafactor(g *args) GaLoreAdafactor {
	g.none(a.WeightDecay != 0, "weight_decay", "transformers gives GaLore none; set it in GaLoreAdafactor")
	return GaLoreAdafactor{AdafactorHF: a.adafactor(), LowRank: g.lowRank()}
}

// apollo sets betas and epsilon only for the low-rank group.
func (a Arguments) apollo(g *args) APOLLOAdamW {
	g.none(a.WeightDecay != 0, "weight_decay", "transformers gives APOLLO none; set it in APOLLOAdamW")
	o := APOLLOAdamW{LR: a.LearningRate, LowRankBeta1: or1(a.AdamBeta1, 0.9), LowRankBeta2: or1(a.AdamBeta2, 0.999),
		LowRankEps: or1(a.AdamEpsilon, 1e-8), LowRank: g.lowRank()}
	o.SVD = g.word("proj", "random", "svd") == "svd"
	o.ScaleType = ScaleType(g.word("scale_type", "channel", "tensor"))
	return o
}

func (a Arguments) adamW8bit() AdamW8bit {
	o := a.adamW32bit()
	return AdamW8bit{LR: o.LR, Beta1: o.Beta1, Beta2: o.Beta2, Eps: o.Eps, WeightDecay: o.WeightDecay}
}

func (a Arguments) adamW32bit() AdamW32bit {
	return AdamW32bit{LR: a.LearningRate, Beta1: or1(a.AdamBeta1, 0.9), Beta2: or1(a.AdamBeta2, 0.999),
		Eps: or1(a.AdamEpsilon, 1e-8), WeightDecay: &a.WeightDecay}
}

func (a Arguments) lion8bit() Lion8bit {
	o := a.lion32bit()
	return Lion8bit{LR: o.LR, Beta1: o.Beta1, Beta2: o.Beta2, WeightDecay: o.WeightDecay}
}

func (a Arguments) lion32bit() Lion32bit {
	return Lion32bit{LR: a.LearningRate, Beta1: or1(a.AdamBeta1, 0.9), Beta2: or1(a.AdamBeta2, 0.999),
		WeightDecay: &a.WeightDecay}
}

// rmsprop32bit passes its options as numbers. transformers passes them as strings, with which the
// class fails.
func (a Arguments) rmsprop32bit(g *args) RMSprop32bit {
	return RMSprop32bit{LR: a.LearningRate, Alpha: g.pointer("alpha"), Eps: g.pointer("eps"),
		WeightDecay: &a.WeightDecay}
}

func (a Arguments) adEMAMix(g *args) AdEMAMix {
	either := func(v *float64, other *float64, standard float64) *float64 {
		if v != nil {
			return v
		}
		return or1(other, standard)
	}
	return AdEMAMix{LR: a.LearningRate, Beta1: either(g.pointer("beta1"), a.AdamBeta1, 0.9),
		Beta2: either(g.pointer("beta2"), a.AdamBeta2, 0.999), Beta3: g.pointer("beta3"), Alpha: g.pointer("alpha"),
		Eps: either(g.pointer("eps"), a.AdamEpsilon, 1e-8), TAlpha: int(g.integer("t_alpha")),
		TBeta3: int(g.integer("t_beta3")), WeightDecay: &a.WeightDecay}
}

func (a Arguments) adEMAMix8bit(g *args) AdEMAMix8bit {
	o := a.adEMAMix(g)
	return AdEMAMix8bit{LR: o.LR, Beta1: o.Beta1, Beta2: o.Beta2, Beta3: o.Beta3, Alpha: o.Alpha, TAlpha: o.TAlpha,
		TBeta3: o.TBeta3, Eps: o.Eps, WeightDecay: o.WeightDecay}
}

// or1 returns the value, or the default of transformers, which differs from the default of some
// optimizers.
func or1(v *float64, standard float64) *float64 { return new(optional.Or(v, standard)) }

// refused are the other members of OptimizerNames in transformers 5.17, with the reason why they
// are not supported.
var refused = []struct {
	reason string
	names  []string
}{
	{"it is for TPUs through torch_xla; take adamw_torch_fused", []string{"adamw_torch_xla"}},
	{"it is for NPUs through torch_npu; take adamw_torch_fused", []string{"adamw_torch_npu_fused"}},
	{"it belongs to torchdistx, which is no longer developed; take adamw_torch", []string{"adamw_anyprecision"}},
	{"it keeps its state in 4 or 8 bits through torchao; take adamw_8bit, which keeps it in 8",
		[]string{"adamw_torch_4bit", "adamw_torch_8bit"}},
}

// args are the optim_args of a run while they are converted to settings.
type args struct {
	values  map[string]string
	used    []string
	problem string // the first problem found
}

// parseArgs is _parse_optim_args of transformers/trainer_optimizer.py, which ignores spaces. If a
// key occurs twice, transformers takes the last value; here it is an error.
func parseArgs(name, text string) (*args, error) {
	g := &args{values: map[string]string{}}
	text = strings.ReplaceAll(text, " ", "")
	if text == "" {
		return g, nil
	}
	for _, pair := range strings.Split(text, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" || value == "" || strings.Contains(value, "=") {
			return nil, errorf(ErrOption, "%q in the OptimArgs of %s is no setting; want key=value, with commas "+
				"between", pair, name)
		}
		if _, twice := g.values[key]; twice {
			return nil, errorf(ErrOption, "the OptimArgs of %s have %q twice", name, key)
		}
		g.values[key] = value
	}
	return g, nil
}

func (g *args) take(key string) (string, bool) {
	g.used = append(g.used, key)
	v, ok := g.values[key]
	return v, ok
}

// none records a problem if a setting is set that this optimizer does not have.
func (g *args) none(set bool, key, why string) {
	if set && g.problem == "" {
		g.problem = key + " is set, but " + why
	}
}

func (g *args) bad(key, value, want string) {
	if g.problem == "" {
		g.problem = key + " is " + strconv.Quote(value) + "; want " + want
	}
}

func (g *args) pointer(key string) *float64 {
	text, ok := g.take(key)
	if !ok {
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		g.bad(key, text, "a number")
		return nil
	}
	return &v
}

func (g *args) number(key string, standard float64) float64 {
	return optional.Or(g.pointer(key), standard)
}

func (g *args) integer(key string) int64 {
	text, ok := g.take(key)
	if !ok {
		return 0
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 1 {
		g.bad(key, text, "a positive integer")
	}
	return v
}

// flag returns true for the words that transformers interprets as true.
func (g *args) flag(key string) bool {
	text, _ := g.take(key)
	switch strings.ToLower(text) {
	case "true", "1", "yes":
		return true
	case "", "false", "0", "no":
		return false
	}
	g.bad(key, text, "true or false")
	return false
}

// optionalFlag returns nil if the key is not given.
func (g *args) optionalFlag(key string) *bool {
	if _, ok := g.values[key]; !ok {
		g.used = append(g.used, key)
		return nil
	}
	return new(g.flag(key))
}

// word returns one of two words. For the first, which is the default, it returns the empty string.
func (g *args) word(key, standard, other string) string {
	text, ok := g.take(key)
	switch {
	case !ok, text == standard:
		return ""
	case text != other:
		g.bad(key, text, standard+" or "+other)
	}
	return text
}

func (g *args) lowRank() LowRank {
	l := LowRank{Rank: g.integer("rank"), UpdateGap: int(g.integer("update_proj_gap")), Scale: g.number("scale", 0)}
	if text, ok := g.take("proj_type"); ok && text != "std" {
		l.Projection = Projection(text)
		if !slices.Contains([]Projection{ProjectReverseStd, ProjectRight, ProjectLeft, ProjectFull}, l.Projection) {
			g.bad("proj_type", text, "std, reverse_std, right, left or full")
		}
	}
	return l
}

// err returns the first problem, or an error for any argument that was not used.
func (g *args) err(name string) error {
	if g.problem != "" {
		return errorf(ErrOption, "the arguments of %s: %s", name, g.problem)
	}
	for _, key := range slices.Sorted(maps.Keys(g.values)) {
		switch {
		case slices.Contains(g.used, key):
		case key == "weight_decay":
			return errorf(ErrOption, "the OptimArgs of %s have weight_decay, which the groups override; set "+
				"Arguments.WeightDecay", name)
		case len(g.used) == 0:
			return errorf(ErrOption, "the OptimArgs of %s have %q; it takes none", name, key)
		default:
			return errorf(ErrOption, "the OptimArgs of %s have %q; it takes %s", name, key,
				strings.Join(g.used, ", "))
		}
	}
	return nil
}
