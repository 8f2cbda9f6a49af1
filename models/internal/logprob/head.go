// Package logprob computes the log probabilities of tokens as TRL does, without the logits of a
// whole batch in memory.
package logprob

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// Options selects what is computed.
type Options struct {
	Squares     bool    // compute Scored.Squares
	Temperature float64 // divides the logits; zero: 1
}

// head computes the log probabilities of tokens from hidden states, and the other logged numbers,
// without the logits of a whole batch in memory: ChunkedLogProbFunction of TRL, with its bits. The
// backward pass computes the logits again.
type head struct {
	weight, bias torch.Tensor // [V, hidden] and [V]; the bias may be undefined
	logits       transformer.Logits
	squares      bool    // compute Squares
	inverse      float64 // of the temperature
	tokens       int64   // tokens of a tile
	words        int64   // words of the vocabulary in a tile
	block        int64   // logits of a tile that are processed at once
}

// cached is how many logits, with what is computed from them, fit into the caches of a CPU.
const cached = 1 << 18

// newHead returns a head with TRL's tile sizes.
func newHead(m Model, o Options) head {
	out := m.OutputEmbeddings()
	h := head{out.Weight, out.Bias, m.Logits(), o.Squares, 1 / cmp.Or(o.Temperature, 1), 4096, 32768, cached}
	if out.Weight.Device().IsCUDA() {
		h.block = h.tokens * h.words
	}
	return h
}

// Scored contains numbers for each token, [N] of float32. Only LogProbs have a history.
type Scored struct {
	LogProbs, Entropy, MeanLogits torch.Tensor
	Top1                          torch.Tensor // 1 where the token is the most probable one
	Squares                       torch.Tensor // the logarithm of the sum of the squares of all probabilities
}

// running is the intermediate state for N tokens after a part of the vocabulary has been processed.
type running struct {
	max, sum, weighted, squares, logits, target torch.Tensor
	top1                                        torch.Tensor // the most probable token
}

func newRunning(n int64, d torch.Device) running {
	o := torch.TensorOptions{Device: d}
	return running{o.Full(math.Inf(-1), n), o.Zeros(n), o.Zeros(n), o.Zeros(n), o.Zeros(n), o.Zeros(n),
		torch.TensorOptions{DType: torch.Int64, Device: d}.Zeros(n)}
}

// part returns the part for n tokens, starting at first. Changes to it change r.
func (r running) part(first, n int64) running {
	f := func(t torch.Tensor) torch.Tensor { return t.Narrow(0, first, n) }
	return running{f(r.max), f(r.sum), f(r.weighted), f(r.squares), f(r.logits), f(r.target), f(r.top1)}
}

// add processes the logits of the words from first on, [n, words]; targets are the tokens, [n].
func (r running) add(z, targets torch.Tensor, first int64, squares bool) {
	words := z.Size(1)
	local := targets.SubScalar(first)
	r.logits.Add_(SumLast(z))
	highest, place := z.MaxDim(-1, false) // the first of several equal ones
	r.top1.Copy_(torch.Where(highest.Gt(r.max), place.AddScalar(first), r.top1))
	most := r.max.Maximum(highest)
	rescale := r.max.Sub(most).Exp()
	e := expInPlace(z.Sub(most.Unsqueeze(-1)))
	r.sum.Mul_(rescale).Add_(SumLast(e))
	if squares {
		r.squares.Mul_(rescale.Mul(rescale)).Add_(SumLast(e.Mul(e)))
	}
	r.weighted.Mul_(rescale).Add_(SumLast(e.Mul_(z)))
	r.max.Copy_(most)
	here := local.GeScalar(0).LogicalAnd(local.LtScalar(words))
	own := z.Gather(-1, local.Clamp(0, words-1).Unsqueeze(-1)).SqueezeDim(-1)
	r.target.Copy_(torch.Where(here, own, r.target))
}

// SumLast sums the last dimension.
func SumLast(t torch.Tensor) torch.Tensor { return t.SumDim([]int64{-1}, false, torch.DefaultDType) }

func expInPlace(t torch.Tensor) torch.Tensor { return torch.Call("aten::exp_", t)[0] }

// arange returns consecutive numbers from first on, on the device of t.
func arange(t torch.Tensor, first, n int64) torch.Tensor {
	return torch.TensorOptions{DType: torch.Int64, Device: t.Device()}.Arange(first, first+n, 1)
}

// Score scores the next tokens of a batch, [B, L], given its hidden states, [B, L, hidden], and
// returns [B, L-1]. Tokens that are false in answers, [B, L-1], have 0. If places, the flattened
// indices of the others, is defined, only those tokens are computed; otherwise all are, as TRL does
// on a CPU.
func Score(m Model, hidden, ids, answers, places torch.Tensor, o Options) Scored {
	rows, width, size := hidden.Size(0), hidden.Size(1)-1, hidden.Size(2)
	hidden = hidden.Narrow(1, 0, width).Reshape(rows*width, size)
	next := ids.Narrow(1, 1, width).Reshape(rows * width)
	var s Scored
	if places.Defined() {
		s = newHead(m, o).score(hidden.IndexSelect(0, places), next.IndexSelect(0, places))
	} else {
		s = newHead(m, o).score(hidden, next)
	}
	none := answers.LogicalNot()
	for _, f := range []*torch.Tensor{&s.LogProbs, &s.Entropy, &s.MeanLogits, &s.Top1, &s.Squares} {
		if places.Defined() {
			all := torch.TensorOptions{Device: f.Device()}.Zeros(rows * width)
			*f = torch.Call("aten::index_copy", all, 0, places, *f)[0].View(rows, width)
		} else {
			*f = f.View(rows, width).MaskedFill(none, 0)
		}
	}
	return s
}

// score scores tokens, [N], given the hidden states of the tokens before them, [N, hidden].
func (h head) score(hidden, tokens torch.Tensor) Scored {
	var compute torch.DType // of the products: that of the hidden states, or of autocast
	f := torch.Function{
		Forward: func(in []torch.Tensor) []torch.Tensor {
			hidden, tokens := in[0], in[3]
			r := newRunning(hidden.Size(0), hidden.Device())
			h.tiles(hidden, func(first, n, word, words int64) {
				torch.Scope(func() {
					tile := h.project(hidden.Narrow(0, first, n), word, words, hidden.DType())
					compute = tile.DType()
					h.blocks(tile, func(from, n int64) {
						z, _ := h.transform(tile.Narrow(0, from, n))
						r.part(first+from, n).add(z, tokens.Narrow(0, first+from, n), word, h.squares)
					})
				})
			})
			logZ := r.max.Add(r.sum.Log())
			squares := r.squares // zeros
			if h.squares {
				squares = squares.Log().Sub(r.sum.Log().MulScalar(2))
			}
			return []torch.Tensor{r.target.Sub(logZ), logZ.Sub(r.weighted.Div(r.sum)),
				r.logits.DivScalar(float64(h.weight.Size(0))), r.top1.Eq(tokens).ToDType(torch.Float32), squares, logZ}
		},
		Backward: func(in, out, gradients []torch.Tensor) []torch.Tensor {
			return h.backward(in[0], in[3], out[5], gradients[0], compute)
		},
	}
	out := f.Apply(hidden, h.weight, h.bias, tokens)
	return Scored{out[0], out[1].Detach(), out[2].Detach(), out[3].Detach(), out[4].Detach()}
}

// backward returns the gradients of hidden states, weight and bias, which are added up in float32.
func (h head) backward(hidden, tokens, logZ, g torch.Tensor, compute torch.DType) []torch.Tensor {
	zeros := func(t torch.Tensor) (z torch.Tensor) {
		if t.Defined() && t.NeedsGrad() {
			z = torch.TensorOptions{Device: t.Device()}.Zeros(t.Shape()...)
		}
		return z
	}
	grads := []torch.Tensor{zeros(hidden), zeros(h.weight), zeros(h.bias), {}}
	h.tiles(hidden, func(first, n, word, words int64) {
		torch.Scope(func() {
			part := hidden.Narrow(0, first, n).ToDType(compute)
			grad := h.project(part, word, words, compute) // the logits, which their gradient replaces
			h.blocks(grad, func(from, n int64) {
				block, first := grad.Narrow(0, from, n), first+from
				z, slope := h.transform(block)
				p := expInPlace(z.Sub(logZ.Narrow(0, first, n).Unsqueeze(-1)))
				own := arange(z, word, words).Eq(tokens.Narrow(0, first, n).Unsqueeze(-1)).ToDType(torch.Float32)
				block.Copy_(slope(own.Sub_(p).Mul_(g.Narrow(0, first, n).Unsqueeze(-1))))
			})
			wide := grad.ToDType(torch.Float32)
			if t := grads[0]; t.Defined() {
				addProduct(t.Narrow(0, first, n), wide, h.weight.Narrow(0, word, words).ToDType(compute))
			}
			if t := grads[1]; t.Defined() {
				addProduct(t.Narrow(0, word, words), wide.T(), part)
			}
			if t := grads[2]; t.Defined() {
				t.Narrow(0, word, words).Add_(grad.SumDim([]int64{0}, false, torch.Float32))
			}
		})
	})
	for i, t := range []torch.Tensor{hidden, h.weight, h.bias} {
		if grads[i].Defined() {
			grads[i] = grads[i].ToDType(t.DType())
		}
	}
	return grads
}

// addProduct adds a·b to t.
func addProduct(t, a, b torch.Tensor) {
	torch.Call("aten::addmm_", t, a, b.ToDType(torch.Float32))
}

// tiles calls f for each tile of tokens and words.
func (h head) tiles(hidden torch.Tensor, f func(first, n, word, words int64)) {
	all, vocabulary := hidden.Size(0), h.weight.Size(0)
	for first := int64(0); first < all; first += h.tokens {
		for word := int64(0); word < vocabulary; word += h.words {
			f(first, min(h.tokens, all-first), word, min(h.words, vocabulary-word))
		}
	}
}

// blocks calls f for consecutive rows of a tile, the last time for up to twice as many. A block
// stays in the CPU's caches, and what f computes row by row has the same bits as for all rows.
func (h head) blocks(tile torch.Tensor, f func(first, n int64)) {
	n := max(1, h.block/tile.Size(1))
	for first, rest := int64(0), tile.Size(0); rest > 0; first, rest = first+n, rest-n {
		if rest < 2*n {
			n = rest
		}
		torch.Scope(func() { f(first, n) })
	}
}

// project returns the logits of a range of words for hidden states, [n, words].
func (h head) project(hidden torch.Tensor, word, words int64, compute torch.DType) torch.Tensor {
	tile := hidden.MatMul(h.weight.Narrow(0, word, words).ToDType(compute).T())
	if h.bias.Defined() {
		tile = tile.Add(h.bias.Narrow(0, word, words).ToDType(tile.DType()))
	}
	return tile
}

// transform applies [transformer.Logits] to a tile in float32 and divides it by the temperature, and
// also returns the derivative. As in TRL, it multiplies by the inverse instead of dividing.
func (h head) transform(tile torch.Tensor) (z torch.Tensor, slope func(g torch.Tensor) torch.Tensor) {
	z = tile.ToDType(torch.Float32)
	slope = func(g torch.Tensor) torch.Tensor { return g }
	switch l := h.logits; {
	case l.Softcap > 0:
		t := z.DivScalar(l.Softcap).Tanh()
		z = t.MulScalar(l.Softcap)
		slope = func(g torch.Tensor) torch.Tensor { return g.Mul(t.Mul(t).RSubScalar(1)) }
	case l.Divisor != 0 && l.Divisor != 1:
		scale := 1 / l.Divisor
		z = z.MulScalar(scale)
		slope = func(g torch.Tensor) torch.Tensor { return g.MulScalar(scale) }
	}
	if h.inverse == 1 {
		return z, slope
	}
	inner := slope
	return z.MulScalar(h.inverse), func(g torch.Tensor) torch.Tensor { return inner(g.MulScalar(h.inverse)) }
}
