package t5

import (
	"math"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// Attention is T5Attention, which does not scale the products of queries and keys.
type Attention struct {
	nn.Mode
	Q *nn.Linear `module:"q"`
	K *nn.Linear `module:"k"`
	V *nn.Linear `module:"v"`
	O *nn.Linear `module:"o"`
	// RelativeAttentionBias has for each class of distances and each head the number that is added
	// to scores, [buckets, heads]. All blocks use that of the first.
	RelativeAttentionBias *nn.Embedding `module:"relative_attention_bias"`

	config *Config
}

// scores are applied to the attention scores: bias, [1, heads, L, S], is added, and positions where
// keep, [B, 1, L, S] or broadcastable to it, is false are masked. Undefined means no bias, or no
// mask.
type scores struct{ keep, bias torch.Tensor }

func newAttention(c Config, b transformer.Builder, biased bool) *Attention {
	inner := c.NumHeads * c.KeyValueSize
	a := &Attention{Q: b.LinearNoBias(c.HiddenSize, inner), K: b.LinearNoBias(c.HiddenSize, inner),
		V: b.LinearNoBias(c.HiddenSize, inner), O: b.LinearNoBias(inner, c.HiddenSize), config: &c}
	if biased {
		a.RelativeAttentionBias = b.Embedding(c.RelativeAttentionNumBuckets, c.NumHeads, nil)
	}
	return a
}

// DrawWeights draws the four layers with standard deviations that depend on the sizes of their
// inputs. The queries are drawn smaller, so that scores need no scaling.
func (a *Attention) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	c := a.config
	draw := func(name string, t torch.Tensor, in int64) {
		if wanted(name+".weight", t) {
			initialize.Normal(t, 0, c.InitializerFactor*math.Pow(float64(in), -0.5), nil)
		}
	}
	draw("q", a.Q.Weight, c.HiddenSize*c.KeyValueSize)
	draw("k", a.K.Weight, c.HiddenSize)
	draw("v", a.V.Weight, c.HiddenSize)
	draw("o", a.O.Weight, c.NumHeads*c.KeyValueSize)
	if a.RelativeAttentionBias != nil {
		draw("relative_attention_bias", a.RelativeAttentionBias.Weight, c.HiddenSize)
	}
}

// forward computes the attention of x, [B, L, hidden], over the keys and values that recalled
// returns, [B, S, heads·size].
func (a *Attention) forward(x torch.Tensor, kind transformer.Attention, s scores,
	recalled func() (keys, values torch.Tensor)) torch.Tensor {
	split := func(t torch.Tensor) torch.Tensor {
		return t.View(t.Size(0), t.Size(1), a.config.NumHeads, a.config.KeyValueSize).Transpose(1, 2)
	}
	q := split(a.Q.Forward(x))
	keys, values := recalled()
	k, v := split(keys), split(values)
	dropout := 0.0
	if a.Training() {
		dropout = *a.config.Dropout
	}
	var out torch.Tensor
	if kind == transformer.Eager {
		weights := q.MatMul(k.Transpose(2, 3))
		if s.bias.Defined() {
			weights = weights.Add(s.bias)
		}
		if s.keep.Defined() {
			weights = weights.Add(transformer.Additive(s.keep, x.DType()))
		}
		weights = weights.Softmax(-1, torch.DefaultDType)
		if dropout > 0 {
			weights = weights.Dropout(dropout, true)
		}
		out = weights.MatMul(v)
	} else {
		out = q.ScaledDotProductAttention(k, v, s.mask(q.Size(1), q.Size(2), k), dropout, false, 1)
	}
	out = out.Transpose(1, 2).Contiguous().Reshape(x.Size(0), x.Size(1), -1)
	return a.O.Forward(out)
}

// mask returns the mask that the fused operator adds to the scores of the given number of queries
// per head. k are the keys, [B, ..., S, E].
func (s scores) mask(heads, queries int64, k torch.Tensor) torch.Tensor {
	o := torch.TensorOptions{DType: k.DType(), Device: k.Device()}
	bias := s.bias
	if !bias.Defined() {
		bias = o.Zeros(1, 1, 1, 1).Expand(1, heads, queries, k.Size(-2))
	}
	if s.keep.Defined() {
		bias = torch.Where(s.keep, bias, o.Full(transformer.Lowest(k.DType())))
	}
	return bias
}

// bias returns the relative position bias for the given number of queries, starting at position
// first, and of keys: [1, heads, queries, keys].
func (s *Stack) bias(first, queries, keys int64) torch.Tensor {
	a := s.Block[0].SelfAttention.SelfAttention
	return torch.Return(func() torch.Tensor {
		o := torch.TensorOptions{DType: torch.Int64, Device: a.RelativeAttentionBias.Weight.Device()}
		query := o.Arange(first, first+queries, 1).Unsqueeze(1)
		c := a.config
		classes := transformer.DistanceClasses(o.Arange(0, keys, 1).Unsqueeze(0).Sub(query), c.RelativeAttentionNumBuckets,
			c.RelativeAttentionMaxDistance, s.Block[0].EncDec == nil)
		return a.RelativeAttentionBias.Forward(classes).Permute(2, 0, 1).Unsqueeze(0)
	})
}
