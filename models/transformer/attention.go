package transformer

import (
	"fmt"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// Attention names a way to compute attention, as attn_implementation of transformers does.
type Attention string

// The ways there are. They differ in speed, memory and last bits.
const (
	SDPA  Attention = "sdpa"  // one fused operator, the default
	Eager Attention = "eager" // product, softmax and product one by one
)

var attentions = []Attention{SDPA, Eager}

// Resolved returns the default for the empty name, and an error for one that there is not.
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
// value are [B, L, heads·E], or [T, heads·E] of a packed batch, as is the result. Of a decoder that
// has a [Past] key and value may be longer than query, which is then one token. They may have fewer
// heads, each for several of the query: grouped-query attention.
func (a Attention) Attend(query, key, value torch.Tensor, mask Mask, heads int64, dropout float64) torch.Tensor {
	if mask.Packed != nil {
		return a.attendPacked(query, key, value, mask.Packed, heads, dropout)
	}
	shape := query.Shape()
	size := shape[2] / heads
	scale := math.Pow(float64(size), -0.5) // as Python's size**-0.5, which need not be 1/sqrt(size)
	seen := shape
	if mask.Causal { // else the keys are of the same tokens and heads
		seen = key.Shape()
	}
	split := func(x torch.Tensor, tokens, width int64) torch.Tensor {
		return x.View(shape[0], tokens, width/size, size).Transpose(1, 2)
	}
	q, k, v := split(query, shape[1], shape[2]), split(key, seen[1], seen[2]), split(value, seen[1], seen[2])
	group := shape[2] / seen[2]
	if group > 1 && (a == Eager || mask.Padding.Defined()) { // else the operator takes care of it
		k, v, group = repeatHeads(k, group), repeatHeads(v, group), 1
	}
	var out torch.Tensor
	if a == Eager {
		weights := q.MatMul(k.Transpose(2, 3)).MulScalar(scale)
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
		if dropout > 0 {
			weights = weights.Dropout(dropout, true)
		}
		out = weights.MatMul(v)
	} else {
		causal := mask.Causal && !mask.Padding.Defined() && shape[1] > 1
		if group == 1 {
			out = q.ScaledDotProductAttention(k, v, mask.Padding, dropout, causal, scale)
		} else {
			out = torch.Call("aten::scaled_dot_product_attention", q, k, v, torch.Tensor{}, dropout, causal, scale, true)[0]
		}
	}
	return out.Transpose(1, 2).Contiguous().Reshape(shape[0], shape[1], heads*size)
}

// repeatHeads makes n heads of each, [B, heads, L, E]: repeat_kv of transformers.
func repeatHeads(x torch.Tensor, n int64) torch.Tensor {
	s := x.Shape()
	return x.Unsqueeze(2).Expand(s[0], s[1], n, s[2], s[3]).Reshape(s[0], s[1]*n, s[2], s[3])
}
