package logprob

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

// TestTilesAddUp: what is scored by small tiles is what one softmax over all words says, with its
// gradients.
func TestTilesAddUp(t *testing.T) {
	testenv.RequireTorch(t)
	for name, c := range map[string]struct {
		logits  transformer.Logits
		inverse float64
	}{"plain": {inverse: 1}, "capped": {transformer.Logits{Softcap: 1.5}, 1},
		"divided": {transformer.Logits{Divisor: 3}, 1}, "capped and cooler": {transformer.Logits{Softcap: 1.5}, 2}} {
		t.Run(name, func(t *testing.T) {
			torch.ManualSeed(1)
			o := torch.TensorOptions{DType: torch.Float32}
			leaf := func(shape ...int64) torch.Tensor { return o.Randn(shape...).RequiresGrad() }
			hidden, weight, bias := leaf(7, 4), leaf(11, 4), leaf(11)
			tokens := torch.From([]int64{0, 10, 3, 4, 4, 7, 1}, 7)
			h := head{weight, bias, c.logits, true, c.inverse, 3, 4, cached}
			s := h.score(hidden, tokens)

			z := c.logits.Apply(hidden.Linear(weight, bias)).MulScalar(c.inverse)
			logs := z.LogSoftmax(-1, torch.DefaultDType)
			own := logs.Gather(-1, tokens.Unsqueeze(-1)).SqueezeDim(-1)
			p := logs.Exp()
			near := func(what string, want, got torch.Tensor) {
				t.Helper()
				assert.True(t, got.AllClose(want, 1e-4, 1e-5, false), "%s: %v, want %v", what, got, want)
			}
			near("log probabilities", own, s.LogProbs)
			near("entropy", SumLast(p.Mul(logs)).Neg(), s.Entropy)
			near("mean logits", z.MeanDim([]int64{-1}, false, torch.DefaultDType), s.MeanLogits)
			near("squares", SumLast(p.Square()).Log(), s.Squares)
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
	tie := head{torch.From([]float32{1, 1, 0}, 3, 1), torch.Tensor{}, transformer.Logits{}, false, 1, 4096, 2, cached}
	top := tie.score(torch.From([]float32{2, 2}, 2, 1), torch.From([]int64{0, 1}, 2)).Top1
	assert.Equal(t, []float32{1, 0}, torch.Values[float32](top), "the first of several is the most probable one")
}

// TestBlocksChangeNoBit: with blocks of a few tokens the numbers and gradients are those of a whole
// tile.
func TestBlocksChangeNoBit(t *testing.T) {
	testenv.RequireTorch(t)
	threads := torch.Threads()
	t.Cleanup(func() { torch.SetThreads(threads) })
	const tokens, words = 71, 5003
	for _, threads := range []int{1, 2} {
		torch.SetThreads(threads)
		torch.ManualSeed(1)
		o := torch.TensorOptions{DType: torch.Float32}
		leaf := func(shape ...int64) torch.Tensor { return o.Randn(shape...).RequiresGrad() }
		leaves := []torch.Tensor{leaf(tokens, 16), leaf(words, 16), leaf(words)}
		ids, g := torch.RandInt(0, words, tokens), []torch.Tensor{o.Randn(tokens)}
		run := func(block int64) []torch.Tensor {
			h := head{leaves[1], leaves[2], transformer.Logits{Softcap: 3}, true, 0.7, 50, 3000, block}
			s := h.score(leaves[0], ids)
			return append(torch.Grad([]torch.Tensor{s.LogProbs}, leaves, torch.GradOptions{Gradients: g}),
				s.LogProbs, s.Entropy, s.MeanLogits, s.Top1, s.Squares)
		}
		want := run(tokens * words)
		for _, block := range []int64{1, 3000 * 2, 3000 * 7} {
			for i, got := range run(block) {
				assert.True(t, got.Equal(want[i]), "number %d, %d threads, blocks of %d", i, threads, block)
			}
		}
	}
}
