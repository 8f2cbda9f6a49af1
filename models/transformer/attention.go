package transformer

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// Attention is the name of an implementation of attention: attn_implementation of transformers.
type Attention string

// The implementations. They differ in speed, memory and last bits.
const (
	SDPA  Attention = "sdpa"  // one fused operator, the default
	Eager Attention = "eager" // product, softmax and product as separate operators
)

var attentions = []Attention{SDPA, Eager}

// Resolved returns the default for the empty name, and an error for an unknown one.
func (a Attention) Resolved() (Attention, error) {
	if a == "" {
		return SDPA, nil
	}
	if !slices.Contains(attentions, a) {
		return "", fmt.Errorf("there is no attention implementation %q; there are %q", string(a), attentions)
	}
	return a, nil
}

// Attend is softmax(query·keyᵀ/sqrt(E) + mask)·value with dropout of the weights. Query, key and
// value are [B, L, heads·E], or [T, heads·E] for a packed batch ([1, T, heads·E] in a decoder), and
// so is the result. In a decoder with a [Past], key and value may be longer than query, which is
// then a single token.
// They may have fewer heads, each of which serves several heads of the query: grouped-query
// attention.
func (a Attention) Attend(query, key, value torch.Tensor, mask Mask, heads int64, dropout float64) torch.Tensor {
	if mask.Packed != nil && !mask.Causal {
		return a.attendPacked(query, key, value, mask.Packed, heads, dropout)
	}
	shape := query.Shape()
	size := shape[2] / heads
	if mask.Causal {
		return a.AttendHeads(SplitHeads(query, size), SplitHeads(key, size), SplitHeads(value, size), mask,
			AttendOptions{Dropout: dropout})
	}
	// Keys and values have the same numbers of tokens and heads, so the shape need not be queried.
	split := func(x torch.Tensor) torch.Tensor {
		return x.View(shape[0], shape[1], heads, size).Transpose(1, 2)
	}
	return a.attend(split(query), split(key), split(value), mask, AttendOptions{Dropout: dropout},
		[]int64{shape[0], heads, shape[1], size}, 1)
}

// SplitHeads maps [B, L, heads·size] to [B, heads, L, size].
func SplitHeads(x torch.Tensor, size int64) torch.Tensor {
	shape := x.Shape()
	return x.View(shape[0], shape[1], shape[2]/size, size).Transpose(1, 2)
}

// AttendOptions configures [Attention.AttendHeads].
type AttendOptions struct {
	Dropout float64 // of the weights
	Scale   float64 // multiplies the products of queries and keys; zero: 1/sqrt(E)
	// ScaleQuery multiplies the queries instead of the products, and folds batch and heads into one
	// dimension. [SDPA] ignores it.
	ScaleQuery bool
	// SoftCap bounds them as SoftCap·tanh(x/SoftCap); zero means no bound. [SDPA] does not support
	// it and ignores it, as in transformers.
	SoftCap float64
}

// AttendHeads is [Attention.Attend] for query, key and value of shape [B, heads, L, E], as
// [SplitHeads] returns them; B is 1 for a packed batch. The result is [B, L, heads·E].
func (a Attention) AttendHeads(q, k, v torch.Tensor, mask Mask, o AttendOptions) torch.Tensor {
	if mask.Packed != nil {
		return a.attendPackedHeads(q, k, v, mask, o)
	}
	shape := q.Shape()
	return a.attend(q, k, v, mask, o, shape, shape[1]/k.Size(1))
}

// attend is AttendHeads for queries of a known shape, in which each group of heads shares one head
// of keys and values.
func (a Attention) attend(q, k, v torch.Tensor, mask Mask, o AttendOptions, shape []int64, group int64) torch.Tensor {
	join := func(x torch.Tensor) torch.Tensor {
		return x.Transpose(1, 2).Contiguous().Reshape(shape[0], shape[2], shape[1]*shape[3])
	}
	// Like Python's size**-0.5, which may differ from 1/sqrt(size).
	scale := cmp.Or(o.Scale, math.Pow(float64(shape[3]), -0.5))
	if group > 1 && (a == Eager || mask.Padding.Defined()) { // otherwise the operator handles groups
		k, v, group = repeatHeads(k, group), repeatHeads(v, group), 1
	}
	if a == Eager {
		return join(attendEagerly(q, k, v, mask, scale, o))
	}
	causal := mask.Causal && !mask.Padding.Defined() && shape[2] > 1
	if group == 1 {
		return join(q.ScaledDotProductAttention(k, v, mask.Padding, o.Dropout, causal, scale))
	}
	return join(torch.Call("aten::scaled_dot_product_attention", q, k, v, torch.Tensor{}, o.Dropout, causal, scale,
		true)[0])
}

// attendEagerly computes attention in separate operators.
func attendEagerly(q, k, v torch.Tensor, mask Mask, scale float64, o AttendOptions) torch.Tensor {
	var weights torch.Tensor
	if o.ScaleQuery {
		scaled, keys := q.MulScalar(scale).Flatten(0, 1), k.Flatten(0, 1)
		weights = scaled.BMM(keys.Transpose(1, 2)).Unflatten(0, q.Size(0), q.Size(1))
	} else {
		weights = q.MatMul(k.Transpose(2, 3)).MulScalar(scale)
	}
	if o.SoftCap > 0 {
		weights = SoftCap(weights, o.SoftCap)
	}
	if mask.Padding.Defined() {
		weights = weights.Add(mask.Padding)
	}
	computed := torch.DefaultDType
	if mask.WideSoftmax {
		computed = torch.Float32
	}
	weights = weights.Softmax(-1, computed)
	if mask.Causal || mask.WideSoftmax {
		weights = weights.ToDType(q.DType()) // before dropout, as in transformers' decoders and ModernBERT
	}
	if o.Dropout > 0 {
		weights = weights.Dropout(o.Dropout, true)
	}
	return weights.MatMul(v)
}

// SoftCap keeps numbers between -bound and bound, and small ones almost unchanged:
// bound·tanh(x/bound).
func SoftCap(x torch.Tensor, bound float64) torch.Tensor {
	return x.DivScalar(bound).Tanh().MulScalar(bound)
}

// repeatHeads repeats each head of [B, heads, L, E] n times: repeat_kv of transformers.
func repeatHeads(x torch.Tensor, n int64) torch.Tensor {
	s := x.Shape()
	return x.Unsqueeze(2).Expand(s[0], s[1], n, s[2], s[3]).Reshape(s[0], s[1]*n, s[2], s[3])
}
