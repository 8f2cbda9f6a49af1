package dpo

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// TestTilesAddUp: what is scored by small tiles is what one softmax over all words says, with its
// gradients.
func TestTilesAddUp(t *testing.T) {
	testenv.RequireTorch(t)
	for name, logits := range map[string]transformer.Logits{"plain": {}, "capped": {Softcap: 1.5},
		"divided": {Divisor: 3}} {
		t.Run(name, func(t *testing.T) {
			torch.ManualSeed(1)
			o := torch.TensorOptions{DType: torch.Float32}
			leaf := func(shape ...int64) torch.Tensor { return o.Randn(shape...).RequiresGrad() }
			hidden, weight, bias := leaf(7, 4), leaf(11, 4), leaf(11)
			tokens := torch.From([]int64{0, 10, 3, 4, 4, 7, 1}, 7)
			h := head{weight, bias, logits, true, 3, 4}
			s := h.score(hidden, tokens)

			z := logits.Apply(hidden.Linear(weight, bias))
			logs := z.LogSoftmax(-1, torch.DefaultDType)
			own := logs.Gather(-1, tokens.Unsqueeze(-1)).SqueezeDim(-1)
			p := logs.Exp()
			near := func(what string, want, got torch.Tensor) {
				t.Helper()
				assert.True(t, got.AllClose(want, 1e-4, 1e-5, false), "%s: %v, want %v", what, got, want)
			}
			near("log probabilities", own, s.LogProbs)
			near("entropy", sum(p.Mul(logs)).Neg(), s.Entropy)
			near("mean logits", z.MeanDim([]int64{-1}, false, torch.DefaultDType), s.MeanLogits)
			near("squares", sum(p.Square()).Log(), s.Squares)
			near("most probable", z.ArgMax(-1, false).Eq(tokens).ToDType(torch.Float32), s.Top1)

			leaves := []torch.Tensor{hidden, weight, bias}
			g := []torch.Tensor{o.Randn(7)}
			want := torch.Grad([]torch.Tensor{own}, leaves, torch.GradOptions{Gradients: g})
			got := torch.Grad([]torch.Tensor{s.LogProbs}, leaves, torch.GradOptions{Gradients: g})
			for i, name := range []string{"hidden states", "weight", "bias"} {
				near("the gradient of "+name, want[i], got[i])
			}
		})
	}
	tie := head{torch.From([]float32{1, 1, 0}, 3, 1), torch.Tensor{}, transformer.Logits{}, false, 4096, 2}
	top := tie.score(torch.From([]float32{2, 2}, 2, 1), torch.From([]int64{0, 1}, 2)).Top1
	assert.Equal(t, []float32{1, 0}, torch.Values[float32](top), "the first of several is the most probable one")
}

// Compact has a task score the tokens of answers alone, as on a GPU.
func Compact(t *Task) { t.compact = true }

func TestLossOptions(t *testing.T) {
	for want, o := range map[string]LossOptions{
		`LossTypes has "dpo"; want some of`:                    {LossTypes: []LossType{"dpo"}},
		"LossWeights has 1 numbers for 2 LossTypes":            {LossTypes: []LossType{IPO, SFT}, LossWeights: []float64{1}},
		"LossWeights has NaN; want finite":                     {LossWeights: []float64{nan()}},
		"Beta is -1; want a number above 0":                    {Beta: -1},
		"LabelSmoothing is 0.5; want a number from 0 to below": {LabelSmoothing: 0.5, LossTypes: []LossType{Robust}},
		`LabelSmoothing is 0.1, which ["sigmoid"] do not have`: {LabelSmoothing: 0.1},
		`LabelSmoothing is 0, of which the loss "exo_pair" is`: {LossTypes: []LossType{EXOPair}},
		"LDAlpha is 2; want a number from 0 to 1":              {LDAlpha: new(2.0)},
		`FDivergence is "kl"; want`:                            {FDivergence: "kl"},
		`FDivergence is "forward_kl" and LossTypes has "aot"`:  {FDivergence: ForwardKL, LossTypes: []LossType{AOT}},
		"FAlphaDivergenceCoef is NaN":                          {FAlphaDivergenceCoef: nan()},
		"DiscoPOPTau is -1":                                    {DiscoPOPTau: -1},
		"UseWeighting is set, and LossTypes has":               {UseWeighting: true, LossTypes: []LossType{AOTUnpaired}},
	} {
		_, err := o.resolved()
		require.ErrorContains(t, err, "dpo: TaskOptions."+want)
	}
	o, err := LossOptions{}.resolved()
	require.NoError(t, err)
	assert.Equal(t, LossOptions{LossTypes: []LossType{Sigmoid}, LossWeights: []float64{1}, Beta: 0.1,
		FDivergence: ReverseKL, FAlphaDivergenceCoef: 0.5, DiscoPOPTau: 0.05}, o)
}

func nan() float64 { zero := 0.0; return zero / zero }
