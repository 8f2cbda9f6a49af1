package llama

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Attention is LlamaAttention, in which a token attends to those before it and to itself.
type Attention struct {
	nn.Mode
	QProj *nn.Linear           `module:"q_proj"`
	KProj *nn.Linear           `module:"k_proj"`
	VProj *nn.Linear           `module:"v_proj"`
	OProj *nn.Linear           `module:"o_proj"`
	QNorm *transformer.RMSNorm `module:"q_norm"` // of each head; nil, as KNorm then is: there is none
	KNorm *transformer.RMSNorm `module:"k_norm"`

	size    int64 // of a head
	dropout float64
	kind    transformer.Attention
}

func newAttention(c Config, b transformer.Builder) *Attention {
	f := families[c.Type]
	hidden, own, shared := c.HiddenSize, c.NumHeads*c.HeadDim, c.NumKeyValueHeads*c.HeadDim
	bias := c.AttentionBias || f.qkvBias
	a := &Attention{
		QProj: linear(b, hidden, own, bias), KProj: linear(b, hidden, shared, bias), VProj: linear(b, hidden, shared, bias),
		OProj: linear(b, own, hidden, c.AttentionBias), size: c.HeadDim, dropout: c.AttentionDropout, kind: c.Attention,
	}
	if f.headNorms {
		a.QNorm, a.KNorm = c.norm(b, c.HeadDim), c.norm(b, c.HeadDim)
	}
	return a
}

func (a *Attention) forward(x torch.Tensor, mask transformer.Mask, recall transformer.Recall) torch.Tensor {
	heads := func(x torch.Tensor) torch.Tensor { return transformer.SplitHeads(x, a.size) }
	q, k, v := heads(a.QProj.Forward(x)), heads(a.KProj.Forward(x)), heads(a.VProj.Forward(x))
	if a.QNorm != nil {
		q, k = a.QNorm.Forward(q), a.KNorm.Forward(k)
	}
	q, k = mask.Rotary.Turn(q), mask.Rotary.Turn(k)
	k, v = recall.Heads(k, v, mask.Window)
	o := transformer.AttendOptions{}
	if a.Training() {
		o.Dropout = a.dropout
	}
	return a.OProj.Forward(a.kind.AttendHeads(q, k, v, mask, o))
}
