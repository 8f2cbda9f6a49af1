package dpo_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/models/dpo"
	"github.com/gotrainer/gotrainer/torch"
)

func TestLossOptionsThatCannotBeAreRefused(t *testing.T) {
	m := tiny(t)
	both, aot, unpaired := []dpo.LossType{dpo.IPO, dpo.SFT}, []dpo.LossType{dpo.AOT}, []dpo.LossType{dpo.AOTUnpaired}
	for want, o := range map[string]dpo.LossOptions{
		`LossTypes has "dpo"; want some of`:                    {LossTypes: []dpo.LossType{"dpo"}},
		"LossWeights has 1 numbers for 2 LossTypes":            {LossTypes: both, LossWeights: []float64{1}},
		"LossWeights has NaN; want finite":                     {LossWeights: []float64{math.NaN()}},
		"Beta is -1; want a number above 0":                    {Beta: -1},
		"LabelSmoothing is 0.5; want a number from 0 to below": {LabelSmoothing: 0.5, LossTypes: []dpo.LossType{dpo.Robust}},
		`LabelSmoothing is 0.1, which ["sigmoid"] do not have`: {LabelSmoothing: 0.1},
		`LabelSmoothing is 0, of which the loss "exo_pair" is`: {LossTypes: []dpo.LossType{dpo.EXOPair}},
		"LDAlpha is 2; want a number from 0 to 1":              {LDAlpha: new(2.0)},
		`FDivergence is "kl"; want`:                            {FDivergence: "kl"},
		`FDivergence is "forward_kl" and LossTypes has "aot"`:  {FDivergence: dpo.ForwardKL, LossTypes: aot},
		"FAlphaDivergenceCoef is NaN":                          {FAlphaDivergenceCoef: math.NaN()},
		"DiscoPOPTau is -1":                                    {DiscoPOPTau: -1},
		"UseWeighting is set, and LossTypes has":               {UseWeighting: true, LossTypes: unpaired},
	} {
		_, err := m.DPOTask(dpo.TaskOptions{LossOptions: o})
		require.ErrorContains(t, err, "dpo: TaskOptions."+want)
	}
}

func TestDefaultsOfTheLoss(t *testing.T) {
	m, other := tiny(t), tiny(t)
	torch.NoGrad(func() { other.InputEmbeddings().Weight.MulScalar_(0.5) }) // where they are equal, alpha has no effect
	loss := func(o dpo.LossOptions) (float64, []torch.Tensor) {
		return lossOf(t, dpoTask(t, m, dpo.TaskOptions{LossOptions: o, Reference: reference(other)}), samples(3))
	}
	for _, c := range []struct{ short, long dpo.LossOptions }{
		{dpo.LossOptions{}, dpo.LossOptions{LossTypes: []dpo.LossType{dpo.Sigmoid}, LossWeights: []float64{1}, Beta: 0.1,
			FDivergence: dpo.ReverseKL}},
		{dpo.LossOptions{FDivergence: dpo.AlphaDivergence},
			dpo.LossOptions{FDivergence: dpo.AlphaDivergence, FAlphaDivergenceCoef: 0.5}},
		{dpo.LossOptions{LossTypes: []dpo.LossType{dpo.DiscoPOP}},
			dpo.LossOptions{LossTypes: []dpo.LossType{dpo.DiscoPOP}, DiscoPOPTau: 0.05}},
	} {
		want, grads := loss(c.long)
		got, others := loss(c.short)
		assert.Equal(t, want, got, "%+v", c.short)
		for i, g := range grads {
			assert.True(t, g.Equal(others[i]), "%+v: gradient %d", c.short, i)
		}
	}
}
