package auto

import (
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// The steps from logits to tokens and their order are those of transformers' logits processors. The
// processors come first, as they also apply without drawing.

// out is the logit of a token that must not be chosen.
var out = math.Inf(-1)

// processed applies Generation's settings to logits or log probabilities, [B, vocabulary], given
// the tokens seen of each text, of which the first begun are not generated.
func (g Generation) processed(logits torch.Tensor, seen [][]int64, begun int) torch.Tensor {
	logits = g.penalized(logits, seen)
	if g.NoRepeatNGramSize > 0 {
		logits = forbidden(logits, repetitions(seen, g.NoRepeatNGramSize))
	}
	if len(g.BadWordsIDs) > 0 {
		logits = forbidden(logits, g.badWords(seen))
	}
	added := len(seen[0]) - begun
	if added < g.MinNewTokens {
		logits = forbiddenToAll(logits, g.EOSTokenIDs)
	}
	if g.ForcedBOSTokenID != nil && len(seen[0]) == 1 {
		logits = only(logits, []int64{*g.ForcedBOSTokenID})
	}
	if len(g.ForcedEOSTokenIDs) > 0 && added == g.MaxNewTokens-1 {
		logits = only(logits, g.ForcedEOSTokenIDs)
	}
	logits = forbiddenToAll(logits, g.SuppressTokens)
	first := 0
	if g.ForcedBOSTokenID != nil && begun == 1 { // the forced token comes before
		first = 1
	}
	if added == first {
		logits = forbiddenToAll(logits, g.BeginSuppressTokens)
	}
	if g.times != nil {
		end := g.times.first
		if len(g.EOSTokenIDs) > 0 {
			end = g.EOSTokenIDs[0]
		}
		logits = g.times.allowed(logits, seen, begun, end)
	}
	if g.Sample {
		logits = g.warped(logits)
	}
	if g.RenormalizeLogits != nil && *g.RenormalizeLogits {
		logits = logits.LogSoftmax(-1, torch.DefaultDType)
	}
	return logits
}

// only excludes all but some tokens, whose logits become 0.
func only(logits torch.Tensor, tokens []int64) torch.Tensor {
	index := torch.From(tokens, int64(len(tokens))).ToDevice(logits.Device())
	return torch.Call("aten::index_fill.int_Scalar", logits.FullLike(out), 1, index, 0.0)[0]
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

// repetitions returns the tokens that would repeat an n-gram that a text already contains.
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

// badWords returns the tokens that would complete one of BadWordsIDs. A token that ends a text is
// never a bad word by itself.
func (g Generation) badWords(seen [][]int64) [][]int64 {
	banned := make([][]int64, len(seen))
	for i, ids := range seen {
		for _, word := range g.BadWordsIDs {
			front, last := word[:len(word)-1], word[len(word)-1]
			if len(front) == 0 && slices.Contains(g.EOSTokenIDs, last) || len(word) > max(1, len(ids)) {
				continue
			}
			if slices.Equal(ids[len(ids)-len(front):], front) {
				banned[i] = append(banned[i], last)
			}
		}
	}
	return banned
}

// forbiddenToAll excludes tokens in all rows.
func forbiddenToAll(logits torch.Tensor, tokens []int64) torch.Tensor {
	if len(tokens) == 0 {
		return logits
	}
	return forbidden(logits, slices.Repeat([][]int64{tokens}, int(logits.Size(0))))
}

// forbidden excludes each row's tokens from that row.
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

// choose returns the next token of each text, given its tokens so far and the logits, [B,
// vocabulary].
func (g Generation) choose(logits torch.Tensor, seen [][]int64, begun int) []int64 {
	logits = g.processed(logits, seen, begun)
	if !g.Sample {
		return torch.Values[int64](logits.ArgMax(-1, false))
	}
	return torch.Values[int64](logits.Softmax(-1, torch.DefaultDType).Multinomial(1, false, g.Generator))
}

// spare returns the minimum number of tokens to choose from. With several beams there must be
// enough that one beam can continue even if all tokens that end a text are drawn.
func (g Generation) spare() int {
	if g.NumBeams > 1 {
		return max(2, 1+len(g.EOSTokenIDs))
	}
	return 1
}

// warped excludes tokens that may not be drawn, and applies the temperature. logits are [B,
// vocabulary].
func (g Generation) warped(logits torch.Tensor) torch.Tensor {
	vocabulary := logits.Size(1)
	spare := min(int64(g.spare()), vocabulary)
	if g.Temperature != 1 {
		logits = logits.DivScalar(g.Temperature)
	}
	if g.TopK > 0 {
		top, _ := logits.TopK(min(max(int64(g.TopK), spare), vocabulary), 1, true, true)
		logits = logits.MaskedFill(logits.Lt(top.Narrow(1, top.Size(1)-1, 1)), out)
	}
	if g.TopP < 1 {
		sorted, order := logits.Sort(1, false)
		rare := sorted.Softmax(-1, torch.DefaultDType).CumSum(1, torch.DefaultDType).LeScalar(1 - g.TopP)
		rare.Narrow(1, vocabulary-spare, spare).Zero_() // keep the most probable ones
		logits = logits.MaskedFill(rare.Clone().Scatter_(1, order, rare), out)
	}
	if g.MinP > 0 {
		p := logits.Softmax(-1, torch.DefaultDType)
		rare := p.Lt(p.AMax([]int64{-1}, true).MulScalar(g.MinP))
		_, best := p.TopK(spare, 1, true, true)
		torch.Call("aten::scatter_.value", rare, 1, best, false)
		logits = logits.MaskedFill(rare, out)
	}
	return logits
}
