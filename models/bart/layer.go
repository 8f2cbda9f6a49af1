package bart

import (
	"math"

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

	headSize     int64
	scaleQuery   bool
	scalesBefore bool
}

// LayerOptions describes a [Layer].
type LayerOptions struct {
	HiddenSize, Heads, FFNDim int64
	// MemorySize is the size of the hidden states that a decoder's layer attends to besides its own;
	// zero: it is an encoder's layer.
	MemorySize int64

	Activation                                   transformer.Activation
	Dropout, AttentionDropout, ActivationDropout float64

	NormalizesBefore bool // the parts of the layer normalize their input instead of their output
	ScaleQuery       bool // of attention: see [transformer.AttendOptions]
	// Whisper makes layers of Whisper: keys have no bias, and queries are scaled before attention, which
	// changes the last bits.
	Whisper bool
}

// NewLayer makes a layer, for this package and for others whose decoders have BART's layers.
func NewLayer(b transformer.Builder, o LayerOptions) *Layer {
	norm := func() *nn.LayerNorm { return b.LayerNorm(o.HiddenSize, layerNormEps) }
	l := &Layer{SelfAttn: newAttention(b, o, o.HiddenSize), SelfAttnLayerNorm: norm(), activation: o.Activation,
		normalizesBefore: o.NormalizesBefore}
	if o.MemorySize > 0 {
		l.EncoderAttn, l.EncoderAttnLayerNorm = newAttention(b, o, o.MemorySize), norm()
	}
	l.FC1, l.FC2, l.FinalLayerNorm = b.Linear(o.HiddenSize, o.FFNDim), b.Linear(o.FFNDim, o.HiddenSize), norm()
	l.Dropout, l.ActivationDropout = nn.NewDropout(o.Dropout), nn.NewDropout(o.ActivationDropout)
	return l
}

func newAttention(b transformer.Builder, o LayerOptions, attended int64) *Attention {
	size := o.HiddenSize
	return &Attention{KProj: b.LinearWith(attended, size, !o.Whisper), VProj: b.Linear(attended, size),
		QProj: b.Linear(size, size), OutProj: b.Linear(size, size), Dropout: nn.NewDropout(o.AttentionDropout),
		headSize: size / o.Heads, scaleQuery: o.ScaleQuery, scalesBefore: o.Whisper}
}

func (l *Layer) forward(x torch.Tensor, kind transformer.Attention, self transformer.Mask, m Memory,
	past *transformer.PairPast) torch.Tensor {
	x = l.residual(x, l.SelfAttnLayerNorm, func(x torch.Tensor) torch.Tensor {
		a := l.SelfAttn
		return a.forward(x, kind, self, past.Own(x, a.KProj, a.VProj))
	})
	if a := l.EncoderAttn; a != nil {
		x = l.residual(x, l.EncoderAttnLayerNorm, func(x torch.Tensor) torch.Tensor {
			return a.forward(x, kind, m.Mask, past.Other(m.Hidden, a.KProj, a.VProj))
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
	o := transformer.AttendOptions{Dropout: transformer.ActiveDropout(a.Dropout), ScaleQuery: a.scaleQuery}
	queries := a.QProj.Forward(x)
	if a.scalesBefore {
		queries, o.Scale = queries.MulScalar(math.Pow(float64(a.headSize), -0.5)), 1
	}
	q := split(queries)
	keys, values := recalled()
	out := kind.AttendHeads(q, split(keys), split(values), mask, o)
	return a.OutProj.Forward(out)
}
