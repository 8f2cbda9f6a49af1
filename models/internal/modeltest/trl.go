package modeltest

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// trlTokenizer is the tokenizer of the golden files of TRL's trainers, seen from their packages, which
// are in models or in models/internal.
func trlTokenizer() string {
	const near = "../dpo/testdata/tokenizer"
	if _, err := os.Stat(near); err != nil {
		return "../" + near
	}
	return near
}

// TRLModel makes a model for the tests of TRL's trainers: that of a config and a seed, with their
// tokenizer. Its matrices are four times as large as usual, so that probabilities are far from even.
// load is called with the folder of the config.
func TRLModel[M any](t *testing.T, config map[string]any, seed uint64, initial map[string]string,
	load func(dir string) (M, error)) M {
	t.Helper()
	dir := ConfigFolder(t, config)
	require.NoError(t, os.CopyFS(dir, os.DirFS(trlTokenizer())))
	torch.ManualSeed(seed)
	m, err := load(dir)
	require.NoError(t, err)
	torch.NoGrad(func() {
		for _, p := range nn.Params(m) {
			if p.Tensor.Dim() == 2 {
				p.Tensor.MulScalar_(4)
			}
		}
	})
	SameWeights(t, m, initial)
	return m
}

// Trained returns the weights that are trained, as they stand in a golden file.
func Trained(m any) map[string]string {
	weights := map[string]string{}
	for _, p := range nn.Params(m) {
		if p.Tensor.NeedsGrad() {
			weights[p.Name] = Sum(p.Tensor.Bytes())
		}
	}
	return weights
}

// DrawTrained gives the weights that are trained values that do not depend on where the generator
// stood, and seeds it: what the scripts do with new adapters.
func DrawTrained(m any) {
	params := map[string]torch.Tensor{}
	var names []string
	for _, p := range nn.Params(m) {
		if p.Tensor.NeedsGrad() {
			names, params[p.Name] = append(names, p.Name), p.Tensor
		}
	}
	slices.Sort(names)
	torch.ManualSeed(42)
	torch.NoGrad(func() {
		for _, name := range names {
			torch.Call("aten::normal_", params[name], 0.0, 0.1, nil)
		}
	})
}
