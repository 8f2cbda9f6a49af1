package dpo

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
