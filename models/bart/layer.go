package bart

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Layer is BartEncoderLayer or BartDecoderLayer, or that of MBart: attention, then in a decoder
// attention to the encoder's text, then a feed-forward part.
type Layer struct {
	SelfAttn             *Attention    `module:"self_attn"`
	SelfAttnLayerNorm    *nn.LayerNorm `module:"self_attn_layer_norm"`
	EncoderAttn          *Attention    `module:"encoder_attn"` // nil in an encoder
	EncoderAttnLayerNorm *nn.LayerNorm `module:"encoder_attn_layer_norm"`
	FC1                  *nn.Linear    `module:"fc1"`
	FC2                  *nn.Linear    `module:"fc2"`
	FinalLayerNorm       *nn.LayerNorm `module:"final_layer_norm"`
	Dropout              *nn.Dropout   `module:"dropout"`
	ActivationDropout    *nn.Dropout   `module:"activation_dropout"`

	activation       transformer.Activation
	normalizesBefore bool
}

// Attention is BartAttention.
type Attention struct {
	KProj   *nn.Linear  `module:"k_proj"`
	VProj   *nn.Linear  `module:"v_proj"`
	QProj   *nn.Linear  `module:"q_proj"`
	OutProj *nn.Linear  `module:"out_proj"`
	Dropout *nn.Dropout `module:"dropout"` // of the attention weights

	headSize int64
}

// normalizesBefore reports whether the parts of a layer normalize their input instead of their
// output.
func (c Config) normalizesBefore() bool { return c.Type == "mbart" }

func newLayer(c Config, b transformer.Builder, decoder bool) *Layer {
	heads, size := c.EncoderAttentionHeads, c.EncoderFFNDim
	if decoder {
		heads, size = c.DecoderAttentionHeads, c.DecoderFFNDim
	}
	norm := func() *nn.LayerNorm { return b.LayerNorm(c.HiddenSize, layerNormEps) }
	activation, _ := transformer.ActivationByName(c.ActivationFunction)
	l := &Layer{SelfAttn: newAttention(c, b, heads), SelfAttnLayerNorm: norm(), activation: activation,
		normalizesBefore: c.normalizesBefore()}
	if decoder {
		l.EncoderAttn, l.EncoderAttnLayerNorm = newAttention(c, b, heads), norm()
	}
	l.FC1, l.FC2, l.FinalLayerNorm = b.Linear(c.HiddenSize, size), b.Linear(size, c.HiddenSize), norm()
	l.Dropout, l.ActivationDropout = nn.NewDropout(*c.Dropout), nn.NewDropout(c.ActivationDropout)
	return l
}

func newAttention(c Config, b transformer.Builder, heads int64) *Attention {
	linear := func() *nn.Linear { return b.Linear(c.HiddenSize, c.HiddenSize) }
	return &Attention{KProj: linear(), VProj: linear(), QProj: linear(), OutProj: linear(),
		Dropout: nn.NewDropout(c.AttentionDropout), headSize: c.HiddenSize / heads}
}

func (l *Layer) forward(x torch.Tensor, kind transformer.Attention, self transformer.Mask, m memory,
	past *transformer.PairPast) torch.Tensor {
	x = l.residual(x, l.SelfAttnLayerNorm, func(x torch.Tensor) torch.Tensor {
		a := l.SelfAttn
		return a.forward(x, kind, self, past.Own(x, a.KProj, a.VProj))
	})
	if a := l.EncoderAttn; a != nil {
		x = l.residual(x, l.EncoderAttnLayerNorm, func(x torch.Tensor) torch.Tensor {
			return a.forward(x, kind, m.mask, past.Other(m.hidden, a.KProj, a.VProj))
		})
	}
	x = l.residual(x, l.FinalLayerNorm, func(x torch.Tensor) torch.Tensor {
		return l.FC2.Forward(l.ActivationDropout.Forward(l.activation(l.FC1.Forward(x))))
	})
	if l.EncoderAttn == nil && x.DType() == torch.Float16 {
		const largest = 65504 - 1000 // of transformers, to which it limits an encoder's numbers in this dtype
		x = x.Clamp(-largest, largest)
	}
	return x
}

// residual adds to x what f makes of it, and normalizes the sum, or before that the input of f.
func (l *Layer) residual(x torch.Tensor, norm *nn.LayerNorm, f func(x torch.Tensor) torch.Tensor) torch.Tensor {
	if l.normalizesBefore {
		return x.Add(l.Dropout.Forward(f(norm.Forward(x))))
	}
	return norm.Forward(x.Add(l.Dropout.Forward(f(x))))
}

// forward computes the attention of x, [B, L, hidden], over the keys and values that recalled
// returns, [B, S, hidden].
func (a *Attention) forward(x torch.Tensor, kind transformer.Attention, mask transformer.Mask,
	recalled func() (keys, values torch.Tensor)) torch.Tensor {
	split := func(t torch.Tensor) torch.Tensor { return transformer.SplitHeads(t, a.headSize) }
	q := split(a.QProj.Forward(x))
	keys, values := recalled()
	out := kind.AttendHeads(q, split(keys), split(values), mask,
		transformer.AttendOptions{Dropout: transformer.ActiveDropout(a.Dropout)})
	return a.OutProj.Forward(out)
}
