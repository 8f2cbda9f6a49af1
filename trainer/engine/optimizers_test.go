package engine_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// muonAndAdamW makes groups for Muon: vectors have an optimizer of their own.
func muonAndAdamW(own optim.Builder) func(model any, params []torch.Named) []optim.Group {
	return func(_ any, params []torch.Named) []optim.Group {
		groups := []optim.Group{{Name: "matrices"}, {Name: "vectors", Optimizer: own}}
		for _, p := range params {
			i := 0
			if p.Tensor.Dim() != 2 {
				i = 1
			}
			groups[i].Params = append(groups[i].Params, p)
		}
		return groups
	}
}

var lowRank = optim.LowRank{Rank: 2, UpdateGap: 5}

// fitRing trains the net on 40 points of the ring, with evaluations and checkpoints in between.
func fitRing(t *testing.T, s *step, dir, from string) {
	t.Helper()
	fit, err := trainer.New(s, quiet(trainer.Options{OutputDir: dir, ResumeFrom: from, Epochs: 2, BatchSize: 4,
		Schedule: lr.Linear{}, Eval: trainer.Every(3, trainer.Update), Save: trainer.Every(7, trainer.Update)}))
	require.NoError(t, err)
	_, err = fit.Fit(t.Context(), ring(40), ring(10))
	require.NoError(t, err)
}

func TestOptimizersWithNeedsOfTheirOwnResumeToTheBit(t *testing.T) {
	for name, o := range map[string]engine.Options{
		"schedule-free": {Optimizer: optim.AdamWScheduleFree{LR: 0.01, WarmupSteps: 5}},
		"8-bit":         {Optimizer: optim.AdamW8bit{LR: 0.01, EightBit: optim.EightBit{MinSize: 8}}},
		"StableAdamW":   {Optimizer: optim.StableAdamW{LR: 0.01}},
		"APOLLO": {Optimizer: optim.APOLLOAdamW{LR: 0.01, LowRank: lowRank},
			LowRankTargets: optim.Targets{Pattern: optim.AllLinear}},
		"GaLore layer by layer": {Optimizer: optim.LayerWise{Optimizer: optim.GaLoreAdamW{LR: 0.01, LowRank: lowRank}},
			LowRankTargets: optim.Targets{Pattern: "hidden"}},
		"Muon and AdamW": {Optimizer: optim.Muon{LR: 0.02}, Groups: muonAndAdamW(optim.AdamW{LR: 0.01})},
		"LOMO":           {Optimizer: optim.LOMO{LR: 0.1}},
		"AdaLOMO":        {Optimizer: optim.AdaLOMO{LR: 0.01}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			whole, part := newStep(t, o), newStep(t, o)
			fitRing(t, whole, dir, "")
			want := fingerprint(whole)
			fitRing(t, part, t.TempDir(), filepath.Join(dir, "checkpoint-7"))
			assert.Equal(t, want, fingerprint(part), "weights, optimizer or generator after a resume")
			for _, s := range []*step{whole, part} {
				if u, ok := s.Optimizer().(optim.BackwardUpdater); ok {
					u.RemoveHooks()
				}
			}
		})
	}
}

func TestLayerByLayerTrainsAsAllTogether(t *testing.T) {
	together := optim.GaLoreAdamW{LR: 0.01, LowRank: lowRank}
	var prints []string
	for _, b := range []optim.Builder{together, optim.LayerWise{Optimizer: together}} {
		s := newStep(t, engine.Options{Optimizer: b, MaxGradNorm: -1, LowRankTargets: optim.Targets{Pattern: "hidden"}})
		fitRing(t, s, t.TempDir(), "")
		prints = append(prints, fingerprint(s))
		if u, ok := s.Optimizer().(optim.BackwardUpdater); ok {
			u.RemoveHooks()
		}
	}
	assert.Equal(t, prints[0], prints[1])
}

// Evaluations and checkpoints use the averages, not the weights at which gradients are computed.
func TestScheduleFreeWeightsAreSavedAsTheyAreEvaluated(t *testing.T) {
	s := newStep(t, engine.Options{Optimizer: optim.AdamWScheduleFree{LR: 0.05}})
	weight := nn.Params(s.Model())[0].Tensor
	batch, err := s.Collate(ring(8))
	require.NoError(t, err)
	for range 5 {
		require.NoError(t, s.Train(t.Context(), batch, trainer.Window{Len: 1, Divisor: 1}))
		_, err := s.Update(t.Context(), 0.05)
		require.NoError(t, err)
	}
	trained := weight.Detach().Clone()
	require.NoError(t, s.StartEval(trainer.Evaluation{}))
	require.NoError(t, s.Eval(t.Context(), batch))
	_, err = s.Metrics(t.Context())
	require.NoError(t, err)
	evaluated := weight.Detach().Clone()
	assert.False(t, trained.Equal(evaluated), "the evaluation looks at the weights of training")
	require.NoError(t, s.Train(t.Context(), batch, trainer.Window{Len: 1, Divisor: 1}))
	golden.Close(t, "back in training", weight.Detach(), trained, 1e-6, 1e-6)

	dir := t.TempDir()
	require.NoError(t, s.Save(dir, trainer.SaveOptions{}))
	other := newNet()
	_, err = nn.Load(filepath.Join(dir, "model.safetensors"), other, nn.LoadOptions{})
	require.NoError(t, err)
	golden.Close(t, "the saved weight", other.Hidden.Weight.Detach(), evaluated, 1e-6, 1e-6)
	golden.Bits(t, "the weight after the save", other.Hidden.Weight.Detach(), weight.Detach())
}

// The best model is loaded while the optimizer is still in training mode.
func TestScheduleFreeWeightsThatWerePutBackStay(t *testing.T) {
	s := newStep(t, engine.Options{Optimizer: optim.AdamWScheduleFree{LR: 0.05}})
	batch, err := s.Collate(ring(8))
	require.NoError(t, err)
	train := func() {
		require.NoError(t, s.Train(t.Context(), batch, trainer.Window{Len: 1, Divisor: 1}))
		_, err := s.Update(t.Context(), 0.05)
		require.NoError(t, err)
	}
	for range 3 {
		train()
	}
	dir := t.TempDir()
	require.NoError(t, s.Save(dir, trainer.SaveOptions{}))
	train()
	require.NoError(t, s.Load(dir, trainer.LoadOptions{WeightsOnly: true}))
	require.NoError(t, s.StartEval(trainer.Evaluation{}))
	require.NoError(t, s.Eval(t.Context(), batch))

	saved := newNet()
	_, err = nn.Load(filepath.Join(dir, "model.safetensors"), saved, nn.LoadOptions{})
	require.NoError(t, err)
	for i, p := range nn.Params(s.Model()) {
		golden.Bits(t, p.Name, p.Tensor.Detach(), nn.Params(saved)[i].Tensor.Detach())
	}
}

func TestOptimizersThatUpdateDuringTheBackwardPassRefuseWhatTheyCannotHave(t *testing.T) {
	testenv.RequireTorch(t)
	lomo := optim.LOMO{LR: 0.1}
	for want, o := range map[string]engine.Options{
		"MaxGradNorm and MaxGradValue clip gradients that are gone": {Optimizer: lomo, MaxGradNorm: 1},
		"leave them out": {Optimizer: lomo, MaxGradValue: 1},
	} {
		_, err := engine.New(engine.Classify(newNet()), o)
		assert.ErrorContains(t, err, want)
	}
	s := newStep(t, engine.Options{Optimizer: lomo})
	defer s.Optimizer().(optim.BackwardUpdater).RemoveHooks()
	fit, err := trainer.New(s, quiet(trainer.Options{Epochs: 1, BatchSize: 4, Accumulate: 2}))
	require.NoError(t, err)
	_, err = fit.Fit(t.Context(), ring(16), nil)
	assert.ErrorContains(t, err, "gradients cannot be accumulated over 2 batches; want Accumulate 1")
}

func TestEmbeddingsKeepTheirStateIn32Bits(t *testing.T) {
	testenv.RequireTorch(t)
	s, err := engine.New(tag(newTagger(0)), engine.Options{
		Optimizer: optim.AdamW8bit{LR: 0.01, EightBit: optim.EightBit{MinSize: 1}}})
	require.NoError(t, err)
	for _, p := range s.Optimizer().Params() {
		p.Tensor.SetGrad(p.Tensor.Detach().OnesLike())
	}
	s.Optimizer().Step(0.01)
	for _, state := range s.Optimizer().State() {
		if name, ok := strings.CutSuffix(state.Name, ".state1"); ok {
			want := torch.Uint8
			if name == "embed.weight" {
				want = torch.Float32
			}
			assert.Equal(t, want, state.Tensor.DType(), name)
		}
	}
}

func TestModulesThatAreNoLinearLayersAreWarnedOf(t *testing.T) {
	testenv.RequireTorch(t)
	var warnings []string
	_, err := engine.New(tag(newTagger(0)), engine.Options{Optimizer: optim.GaLoreAdamW{LowRank: lowRank},
		LowRankTargets: optim.Targets{Parts: []string{"hidden", "embed"}},
		Warn:           func(text string) { warnings = append(warnings, text) }})
	require.NoError(t, err)
	assert.Equal(t,
		[]string{`Options.LowRankTargets ["hidden", "embed"] also match embed, which are not linear layers ` +
			"and are left unchanged; only the weights of linear layers can have a low rank"}, warnings)
}

func TestAveragesOfScheduleFreeWeightsAreRefused(t *testing.T) {
	testenv.RequireTorch(t)
	for _, o := range []engine.Options{
		{Optimizer: optim.SGDScheduleFree{}},
		{Optimizer: optim.Muon{}, Groups: muonAndAdamW(optim.SGDScheduleFree{})},
	} {
		o.EMA = engine.EMA{Decay: 0.9}
		_, err := engine.New(engine.Classify(newNet()), o)
		assert.ErrorContains(t, err, "optim.SGDScheduleFree averages the weights itself; leave EMA out")
	}
}
