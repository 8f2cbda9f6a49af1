package llama

import (
	"math"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Attention is LlamaAttention, in which a token attends to itself and those before it.
type Attention struct {
	nn.Mode
	QProj   *nn.Linear           `module:"q_proj"`
	KProj   *nn.Linear           `module:"k_proj"`
	VProj   *nn.Linear           `module:"v_proj"`
	OProj   *nn.Linear           `module:"o_proj"`
	QKVProj *nn.Linear           `module:"qkv_proj"` // replaces the three; nil: there are three
	QNorm   *transformer.RMSNorm `module:"q_norm"`   // nil, like KNorm, if there is none
	KNorm   *transformer.RMSNorm `module:"k_norm"`

	family  family
	size    int64                     // size of a head
	own     int64                     // width of the queries, all heads together
	shared  int64                     // width of the keys, and of the values
	options transformer.AttendOptions // in training mode
	kind    transformer.Attention
}

func newAttention(c Config, b transformer.Builder) *Attention {
	f := families[c.Type]
	hidden, own, shared := c.HiddenSize, c.NumHeads*c.HeadDim, c.NumKeyValueHeads*c.HeadDim
	bias := c.AttentionBias || f.qkvBias && !c.NoQKVBias
	a := &Attention{family: f, size: c.HeadDim, own: own, shared: shared, kind: c.Attention,
		options: transformer.AttendOptions{Dropout: c.AttentionDropout, Scale: c.AttentionMultiplier,
			SoftCap: max(0, c.AttnLogitSoftcapping)}}
	if c.QueryPreAttnScalar > 0 {
		a.options.Scale = math.Pow(float64(c.QueryPreAttnScalar), -0.5)
	}
	if f.fused { // weights are drawn in transformers' order
		a.OProj, a.QKVProj = b.LinearWith(own, hidden, false), b.LinearWith(hidden, own+2*shared, false)
		return a
	}
	a.QProj, a.KProj = b.LinearWith(hidden, own, bias), b.LinearWith(hidden, shared, bias)
	a.VProj, a.OProj = b.LinearWith(hidden, shared, bias), b.LinearWith(own, hidden, c.AttentionBias)
	switch {
	case f.wideNorms:
		a.QNorm, a.KNorm = c.norm(b, own), c.norm(b, shared)
	case f.headNorms:
		a.QNorm, a.KNorm = c.norm(b, c.HeadDim), c.norm(b, c.HeadDim)
	}
	return a
}

func (a *Attention) forward(x torch.Tensor, mask transformer.Mask, recall transformer.Recall) torch.Tensor {
	q, k, v := a.project(x)
	if a.family.wideNorms {
		q, k = a.QNorm.Forward(q), a.KNorm.Forward(k)
	}
	split := func(x torch.Tensor) torch.Tensor { return transformer.SplitHeads(x, a.size) }
	q, k, v = split(q), split(k), split(v)
	if a.family.headNorms {
		q, k = a.QNorm.Forward(q), a.KNorm.Forward(k)
	}
	dtype := q.DType()
	if q, k = mask.Rotary.Turn(q), mask.Rotary.Turn(k); a.family.castLast {
		q, k = q.ToDType(dtype), k.ToDType(dtype)
	}
	k, v = recall.Heads(k, v, mask.Window)
	o := a.options
	if !a.Training() {
		o.Dropout = 0
	}
	return a.OProj.Forward(a.kind.AttendHeads(q, k, v, mask, o))
}

// project computes the queries, keys and values of x, each [B, L, heads·size].
func (a *Attention) project(x torch.Tensor) (q, k, v torch.Tensor) {
	if !a.family.fused {
		return a.QProj.Forward(x), a.KProj.Forward(x), a.VProj.Forward(x)
	}
	all := a.QKVProj.Forward(x)
	return all.Narrow(-1, 0, a.own), all.Narrow(-1, a.own, a.shared), all.Narrow(-1, a.own+a.shared, a.shared)
}
