package optim_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"pgregory.net/rapid"
)

// unloaded returns parameters without tensors, because groups are divided by name only.
func unloaded(names ...string) (params []torch.Named) {
	for _, n := range names {
		params = append(params, torch.Named{Name: n})
	}
	return params
}

func describe(groups []optim.Group) string {
	var s []string
	for _, g := range groups {
		s = append(s, fmt.Sprintf("%s x%.3g %v", g.Name, g.LRScale, names(g.Params)))
	}
	return strings.Join(s, "; ")
}

func TestByPatternTakesTheFirstMatch(t *testing.T) {
	params := unloaded("body.0.weight", "body.0.bias", "head.weight", "head.bias")
	groups, err := optim.ByPattern(params, optim.Pattern{Match: `^body\.`, LRScale: 0.1}, optim.Pattern{Match: `bias$`,
		Name: "biases", LRScale: 2})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := describe(groups),
		`^body\. x0.1 [body.0.weight body.0.bias]; biases x2 [head.bias]; rest x0 [head.weight]`; got != want {
		t.Errorf("groups are %s, want %s", got, want)
	}
	for _, test := range []struct {
		pattern string
		kind    error
		says    string
	}{{"(", optim.ErrOption, "pattern 0"}, {"nowhere", optim.ErrParam, `"nowhere" matches no parameter`}} {
		if _, err := optim.ByPattern(params, optim.Pattern{Match: test.pattern}); !errors.Is(err, test.kind) ||
			!strings.Contains(err.Error(), test.says) {
			t.Errorf("ByPattern(%q) = %v, want %v that says %q", test.pattern, err, test.kind, test.says)
		}
	}
}

func TestLayerDecayFallsTowardTheEmbeddings(t *testing.T) {
	groups := []optim.Group{
		{Name: "decay", LRScale: 2, Params: unloaded("embeddings.word.weight", "encoder.layer.0.w.weight",
			"encoder.layer.1.w.weight", "classifier.weight")},
		{Name: "no_decay", WeightDecay: new(0.0), Params: unloaded("encoder.layer.1.w.bias",
			"encoder.layer.1.norm.bias", "classifier.bias")},
	}
	got := describe(optim.LayerDecay(groups, 0.5, optim.TransformerLayer))
	want := "decay layer 0 x0.25 [embeddings.word.weight]; decay layer 1 x0.5 [encoder.layer.0.w.weight]; decay " +
		"layer 2 x1 [encoder.layer.1.w.weight]; decay layer 3 x2 [classifier.weight]; " +
		"no_decay layer 2 x0.5 [encoder.layer.1.w.bias encoder.layer.1.norm.bias]; no_decay layer 3 x1 " +
		"[classifier.bias]"
	if got != want {
		t.Errorf("groups are\n%s, want\n%s", got, want)
	}
	for _, decay := range []float64{0, -1, 1.1, math.NaN()} {
		if err := torch.Try(func() { optim.LayerDecay(groups, decay, optim.TransformerLayer) }); !errors.Is(err,
			torch.ErrValue) {
			t.Errorf("LayerDecay with %g panics with %v, want torch.ErrValue", decay, err)
		}
	}
}

func TestTransformerLayerKnowsTheUsualNames(t *testing.T) {
	for name, want := range map[string]int{
		"bert.embeddings.LayerNorm.weight": 0, "bert.encoder.layer.11.output.dense.bias": 12,
		"transformer.h.3.ln_1.weight": 4,
		"model.layers.0.mlp.weight":   1, "blocks.7.attn.qkv.weight": 8, "patch_embed.proj.weight": 0,
		"classifier.weight": -1, "h.weight": -1,
	} {
		if got := optim.TransformerLayer(name); got != want {
			t.Errorf("TransformerLayer(%q) = %d, want %d", name, got, want)
		}
	}
}

// Dividing neither loses nor adds parameters, and keeps their order within a group.
func TestDividingKeepsEveryParameterOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfDistinct(rapid.StringMatching(`(embed|layer\.[0-9]|h\.[0-9]{1,2}|head)\.[abc]{1,3}`),
			func(s string) string { return s }).Draw(t, "names")
		decay := rapid.Float64Range(0.01, 1).Draw(t, "decay")
		seen := map[string]int{}
		for _, g := range optim.LayerDecay([]optim.Group{{Params: unloaded(all...)}}, decay, optim.TransformerLayer) {
			if !(g.LRScale > 0 && g.LRScale <= 1) {
				t.Fatalf("LRScale of %s is %g", g.Name, g.LRScale)
			}
			for _, p := range g.Params {
				seen[p.Name]++
			}
		}
		for _, n := range all {
			if seen[n] != 1 {
				t.Fatalf("%q is in %d groups, want 1", n, seen[n])
			}
		}
		if len(seen) != len(all) {
			t.Fatalf("there are %d parameters, want %d", len(seen), len(all))
		}
	})
}

func TestSettingsOfEveryOptimizerAreChecked(t *testing.T) {
	testenv.RequireTorch(t)
	vector := []optim.Group{{Params: []torch.Named{param("w", 2)}}}
	matrix := []optim.Group{{Params: []torch.Named{param("w", 2, 2)}}}
	low := []optim.Group{{LowRank: true, Params: vector[0].Params}}
	tall := []optim.Group{{LowRank: true, Params: []torch.Named{param("w", 3, 2)}}}
	decayed := []optim.Group{{WeightDecay: new(0.1), Params: vector[0].Params}}
	scaled := []optim.Group{{LRScale: 2, Params: vector[0].Params}}
	f := false
	for _, test := range []struct {
		builder optim.Builder
		groups  []optim.Group
		kind    error
		says    string
	}{
		{optim.Adamax{Beta1: new(1.0)}, vector, optim.ErrOption, "Adamax.Beta1 is 1"},
		{optim.NAdam{MomentumDecay: new(-1.0)}, vector, optim.ErrOption, "NAdam.MomentumDecay is -1"},
		{optim.RAdam{Eps: new(-1.0)}, vector, optim.ErrOption, "RAdam.Eps is -1"},
		{optim.Adagrad{LRDecay: -1}, vector, optim.ErrOption, "Adagrad.LRDecay is -1"},
		{optim.Adadelta{Rho: new(1.5)}, vector, optim.ErrOption, "Adadelta.Rho is 1.5"},
		{optim.RMSprop{Momentum: -1}, vector, optim.ErrOption, "RMSprop.Momentum is -1"},
		{optim.Rprop{EtaPlus: new(0.5)}, vector, optim.ErrOption, "EtaPlus 0.5"},
		{optim.Rprop{}, decayed, optim.ErrOption, "Rprop has no weight decay"},
		{optim.ASGD{T0: new(-1.0)}, vector, optim.ErrOption, "ASGD.T0 is -1"},
		{optim.Adafactor{Beta2Decay: new(0.5)}, vector, optim.ErrOption, "Beta2Decay is 0.5"},
		{optim.Adafactor{ClipThreshold: new(0.5)}, vector, optim.ErrOption, "ClipThreshold is 0.5"},
		{optim.AdafactorHF{LR: 0.1}, vector, optim.ErrOption, "its steps are relative and ignore it"},
		{optim.AdafactorHF{RelativeStep: &f}, vector, optim.ErrOption, "AdafactorHF.LR is not set"},
		{optim.AdafactorHF{RelativeStep: &f, LR: 1, WarmupInit: true}, vector, optim.ErrOption, "WarmupInit"},
		{optim.AdafactorHF{ClipThreshold: new(0.0)}, vector, optim.ErrOption, "ClipThreshold is 0"},
		{optim.AdafactorHF{}, scaled, optim.ErrOption, "LRScale of group 0 is 2"},
		{optim.Muon{}, vector, optim.ErrParam, "has 1 dimensions; Muon is for matrices only"},
		{optim.Muon{NSSteps: new(100)}, matrix, optim.ErrOption, "NSSteps is 100"},
		{optim.Muon{Adjust: "best"}, matrix, optim.ErrOption, `Adjust is "best"`},
		{optim.Muon{NSCoefficients: &[3]float64{math.NaN(), 0, 0}}, matrix, optim.ErrOption,
			"NSCoefficients[0] is NaN"},
		{optim.Lion{Beta2: new(1.1)}, vector, optim.ErrOption, "Beta2 1.1"},
		{optim.LAMB{WeightDecay: new(-1.0)}, vector, optim.ErrOption, "LAMB.WeightDecay is -1"},
		{optim.GaLoreAdamW{LowRank: optim.LowRank{Projection: "up"}}, matrix, optim.ErrOption, `Projection is "up"`},
		{optim.GaLoreAdamW{LowRank: optim.LowRank{Rank: -1}}, matrix, optim.ErrOption, "Rank -1"},
		{optim.GaLoreAdafactor{LowRank: optim.LowRank{UpdateGap: -1}}, matrix, optim.ErrOption, "UpdateGap -1"},
		{optim.GaLoreAdamW{}, low, optim.ErrParam, "a low-rank group is for matrices only"},
		{optim.AdamW{}, low, optim.ErrOption, "AdamW has no low-rank form"},
		{optim.AdamWScheduleFree{Beta1: new(0.0)}, vector, optim.ErrOption, "AdamWScheduleFree.Beta1 is 0"},
		{optim.SGDScheduleFree{Momentum: new(1.0)}, vector, optim.ErrOption, "SGDScheduleFree.Momentum is 1"},
		{optim.SGDScheduleFree{Momentum: new(0.0)}, vector, optim.ErrOption, "SGDScheduleFree.Momentum is 0"},
		{optim.RAdamScheduleFree{R: math.Inf(1)}, vector, optim.ErrOption, "R is +Inf"},
		{optim.AdamWScheduleFree{WarmupSteps: -1}, vector, optim.ErrOption, "WarmupSteps is -1"},
		{optim.StableAdamW{MaxLR: 1}, vector, optim.ErrOption, "MaxLR is 1, but only DecoupleLR looks at it"},
		{optim.GrokAdamW{AlphaInit: new(1.5)}, vector, optim.ErrOption, "AlphaInit is 1.5"},
		{optim.GrokAdamW{Gamma: new(1.0)}, vector, optim.ErrOption, "Gamma is 1"},
		{optim.AdEMAMix{Beta3: new(1.0)}, vector, optim.ErrOption, "AdEMAMix.Beta3 is 1"},
		{optim.AdEMAMix8bit{TBeta3: 5, Beta1: new(0.0)}, vector, optim.ErrOption,
			"TBeta3 is 5, but Beta1 or Beta3 is 0"},
		{optim.AdamW8bit{EightBit: optim.EightBit{MinSize: -1}}, vector, optim.ErrOption, "MinSize is -1"},
		{optim.Lion8bit{Beta2: new(1.0)}, vector, optim.ErrOption, "Lion8bit.Beta2 is 1"},
		{optim.RMSprop32bit{Alpha: new(0.0)}, vector, optim.ErrOption, "RMSprop32bit.Alpha is 0"},
		{optim.GaLoreAdamW8bit{}, low, optim.ErrParam, "a low-rank group is for matrices only"},
		{optim.APOLLOAdamW{ScaleType: "row"}, vector, optim.ErrOption, `ScaleType is "row"; want channel or tensor`},
		{optim.APOLLOAdamW{LowRank: optim.LowRank{Projection: optim.ProjectFull}}, vector, optim.ErrOption,
			"it projects one side only"},
		{optim.APOLLOAdamW{LowRank: optim.LowRank{Projection: optim.ProjectLeft}}, tall, optim.ErrParam,
			"the longer side of parameter \"w\", of shape [3 2], would be projected"},
		{optim.LOMO{ClipGradValue: -1}, vector, optim.ErrOption, "LOMO.ClipGradValue is -1"},
		{optim.AdaLOMO{ClipThreshold: new(0.0)}, vector, optim.ErrOption, "AdaLOMO.ClipThreshold is 0"},
		{optim.LayerWise{}, vector, optim.ErrOption, "LayerWise.Optimizer is not set"},
		{optim.LayerWise{Optimizer: optim.GrokAdamW{}}, vector, optim.ErrOption,
			"GrokAdamW cannot work layer by layer"},
		{optim.LayerWise{Optimizer: optim.LOMO{}}, vector, optim.ErrOption, "works so by itself"},
		{optim.Adamax{Implementation: optim.Fused}, vector, optim.ErrOption, "no fused kernel"},
		{optim.AdamW{Implementation: "magic"}, vector, optim.ErrOption, `Implementation is "magic"`},
	} {
		opt, err := test.builder.Build(test.groups)
		if opt != nil || !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%T.Build = %v, %v; want %v that says %q", test.builder, opt, err, test.kind, test.says)
		}
	}
}

func TestLearningRatesAreThoseOfPyTorch(t *testing.T) {
	for name, want := range map[string]float64{"Adamax": 2e-3, "NAdam": 2e-3, "RAdam": 1e-3, "Adagrad": 1e-2,
		"Adadelta": 1, "RMSprop": 1e-2, "Rprop": 1e-2,
		"ASGD": 1e-2, "Adafactor": 1e-2, "AdafactorHF": 1e-2, "Muon": 1e-3, "Lion": 1e-4, "LAMB": 1e-3,
		"GaLoreAdamW": 1e-3, "GaLoreAdafactor": 1e-2, "AdamWScheduleFree": 2.5e-3, "RAdamScheduleFree": 2.5e-3,
		"SGDScheduleFree": 1, "StableAdamW": 1e-3, "GrokAdamW": 1e-3, "AdEMAMix": 1e-3, "AdEMAMix8bit": 1e-3,
		"AdamW8bit": 1e-3, "AdamW32bit": 1e-3, "Lion8bit": 1e-4, "Lion32bit": 1e-4, "RMSprop8bit": 1e-2,
		"RMSprop32bit": 1e-2, "GaLoreAdamW8bit": 1e-3, "APOLLOAdamW": 1e-3, "LOMO": 1e-3, "AdaLOMO": 1e-3} {
		if got := settingsByName[name].LearningRate(); got != want {
			t.Errorf("%s.LearningRate() = %g, want %g", name, got, want)
		}
	}
}

func TestNoOptimizerHoldsMoreTensorsAfterTheFirstSteps(t *testing.T) {
	testenv.RequireTorch(t)
	for name, b := range settingsByName {
		params := []torch.Named{param("a", 3, 4), param("b", 2, 2)}
		opt, err := b.Build([]optim.Group{{Params: params, LowRank: strings.HasPrefix(name, "GaLore") ||
			strings.HasPrefix(name, "APOLLO")}})
		if err != nil {
			t.Fatal(err)
		}
		ready(opt)
		step := func(k int) {
			for i, p := range params {
				if i == 1 && k%3 == 0 {
					p.Tensor.SetGrad(torch.Tensor{}) // makes it a separate batch
				} else {
					torch.Scope(func() { p.Tensor.SetGrad(torch.Full(0.5, p.Tensor.Shape()...)) })
				}
			}
			opt.Step(0.01)
		}
		step(0)
		step(1)
		before := torch.Live()
		for k := range 30 {
			step(k)
		}
		if after := torch.Live(); after > before {
			t.Errorf("%s: after 30 more steps there are %d tensors, want at most %d", name, after, before)
		}
	}
}

// A step that cannot start leaves counts and states unchanged.
func TestAStepOnAFreedParameterChangesNothing(t *testing.T) {
	testenv.RequireTorch(t)
	for name, b := range settingsByName {
		params := []torch.Named{param("a", 3, 4), param("b", 2, 2)}
		opt, err := b.Build([]optim.Group{{Params: params}})
		if err != nil {
			t.Fatal(err)
		}
		ready(opt)
		for _, p := range params {
			torch.Scope(func() { p.Tensor.SetGrad(p.Tensor.OnesLike()) })
		}
		opt.Step(0.01)
		before := stateText(opt)
		params[1].Tensor.Free()
		if err := torch.Try(func() { opt.Step(0.01) }); !errors.Is(err, torch.ErrFreed) {
			t.Errorf("%s: Step panics with %v, want torch.ErrFreed", name, err)
		}
		if after := stateText(opt); after != before || opt.Updates() != 1 {
			t.Errorf("%s: after %d updates the states are\n%s, want 1 and\n%s", name, opt.Updates(), after, before)
		}
	}
}

// ready prepares an optimizer of any kind for Step with gradients of any origin.
func ready(o optim.Optimizer) {
	o.(optim.ModeSwitcher).Train()
	if u, ok := o.(optim.BackwardUpdater); ok {
		u.RemoveHooks()
	}
}

func stateText(o optim.Optimizer) string {
	var s strings.Builder
	for _, t := range o.State() {
		fmt.Fprintln(&s, t.Name, t.Tensor)
	}
	return s.String()
}
