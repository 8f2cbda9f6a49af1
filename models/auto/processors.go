package auto

import (
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// The steps between logits and tokens, and their order, are those of transformers' logits processors:
// first those that serve beams, too.

// out is the logit of what is not to be chosen.
var out = math.Inf(-1)

// processed applies to logits, or logarithms of probabilities, [B, vocabulary], what Generation says of the
// tokens seen of each text, which began to be written behind the first so many.
func (g Generation) processed(logits torch.Tensor, seen [][]int64, begun int) torch.Tensor {
	logits = g.penalized(logits, seen)
	if g.NoRepeatNGramSize > 0 {
		logits = forbidden(logits, repetitions(seen, g.NoRepeatNGramSize))
	}
	if len(seen[0])-begun < g.MinNewTokens {
		logits = forbidden(logits, slices.Repeat([][]int64{g.EOSTokenIDs}, len(seen)))
	}
	return logits
}

// penalized applies RepetitionPenalty.
func (g Generation) penalized(logits torch.Tensor, seen [][]int64) torch.Tensor {
	if g.RepetitionPenalty == 1 {
		return logits
	}
	ids := torch.From(slices.Concat(seen...), int64(len(seen)), int64(len(seen[0]))).ToDevice(logits.Device())
	of := logits.Gather(1, ids)
	of = torch.Where(of.LtScalar(0), of.MulScalar(g.RepetitionPenalty), of.DivScalar(g.RepetitionPenalty))
	return logits.Clone().Scatter_(1, ids, of)
}

// repetitions are the tokens that would make the last n tokens of each text ones that it has already.
func repetitions(seen [][]int64, n int) [][]int64 {
	banned := make([][]int64, len(seen))
	for i, ids := range seen {
		if len(ids)+1 < n {
			continue
		}
		last := ids[len(ids)-n+1:]
		for at := 0; at+n <= len(ids); at++ {
			if slices.Equal(ids[at:at+n-1], last) {
				banned[i] = append(banned[i], ids[at+n-1])
			}
		}
	}
	return banned
}

// forbidden takes tokens of each row out of the choice.
func forbidden(logits torch.Tensor, tokens [][]int64) torch.Tensor {
	var at []int64
	for i, row := range tokens {
		for _, id := range row {
			if vocabulary := logits.Size(1); id >= 0 && id < vocabulary {
				at = append(at, int64(i)*vocabulary+id)
			}
		}
	}
	if len(at) == 0 {
		return logits
	}
	index := torch.From(at, int64(len(at))).ToDevice(logits.Device())
	filled := torch.Call("aten::index_fill.int_Scalar", logits.Reshape(-1), 0, index, out)[0]
	return filled.View(logits.Shape()...)
}

// choose are the tokens that follow those seen of each text, by their logits, [B, vocabulary].
func (g Generation) choose(logits torch.Tensor, seen [][]int64, begun int) []int64 {
	logits = g.processed(logits, seen, begun)
	if !g.Sample {
		return torch.Values[int64](logits.ArgMax(-1, false))
	}
	if g.Temperature != 1 {
		logits = logits.DivScalar(g.Temperature)
	}
	if vocabulary := logits.Size(1); g.TopK > 0 {
		top, _ := logits.TopK(min(int64(g.TopK), vocabulary), 1, true, true)
		logits = logits.MaskedFill(logits.Lt(top.Narrow(1, top.Size(1)-1, 1)), out)
	}
	if g.TopP < 1 {
		sorted, order := logits.Sort(1, false)
		rare := sorted.Softmax(-1, torch.DefaultDType).CumSum(1, torch.DefaultDType).LeScalar(1 - g.TopP)
		rare.Narrow(1, rare.Size(1)-1, 1).Zero_() // the most probable token stays
		logits = logits.MaskedFill(rare.Clone().Scatter_(1, order, rare), out)
	}
	if g.MinP > 0 {
		p := logits.Softmax(-1, torch.DefaultDType)
		logits = logits.MaskedFill(p.Lt(p.AMax([]int64{-1}, true).MulScalar(g.MinP)), out)
	}
	return torch.Values[int64](logits.Softmax(-1, torch.DefaultDType).Multinomial(1, false, g.Generator))
}
