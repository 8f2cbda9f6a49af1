package nn

import (
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// TransformerDecoderLayer is self-attention, attention to the encoder's output and a feed-forward
// network: torch.nn.TransformerDecoderLayer.
type TransformerDecoderLayer struct {
	SelfAttn      *MultiheadAttention `module:"self_attn"`
	MultiheadAttn *MultiheadAttention `module:"multihead_attn"`
	Linear1       *Linear             `module:"linear1"`
	Dropout       *Dropout            `module:"dropout"`
	Linear2       *Linear             `module:"linear2"`
	Norm1         *LayerNorm          `module:"norm1"`
	Norm2         *LayerNorm          `module:"norm2"`
	Norm3         *LayerNorm          `module:"norm3"`
	Dropout1      *Dropout            `module:"dropout1"`
	Dropout2      *Dropout            `module:"dropout2"`
	Dropout3      *Dropout            `module:"dropout3"`

	Activation Layer `module:"activation"`
	NormFirst  bool
}

// NewTransformerDecoderLayer makes a TransformerDecoderLayer with the given numbers of features
// and heads, initialised as in PyTorch.
func NewTransformerDecoderLayer(model, heads int64, o *TransformerOptions) *TransformerDecoderLayer {
	opt := o.resolved()
	p := *opt.Dropout
	return &TransformerDecoderLayer{
		SelfAttn: opt.attention(model, heads), MultiheadAttn: opt.attention(model, heads),
		Linear1: opt.linear(model, opt.FeedForward), Dropout: NewDropout(p), Linear2: opt.linear(opt.FeedForward,
			model),
		Norm1: opt.norm(model), Norm2: opt.norm(model), Norm3: opt.norm(model),
		Dropout1: NewDropout(p), Dropout2: NewDropout(p), Dropout3: NewDropout(p),
		Activation: opt.Activation, NormFirst: opt.NormFirst,
	}
}

// Forward keeps the shape of x: [L, N, E], [N, L, E] with BatchFirst, or [L, E]. memory is the
// encoder's output; self masks x, and cross masks memory.
func (l *TransformerDecoderLayer) Forward(x, memory torch.Tensor, self, cross AttentionMask) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		attend := func(x torch.Tensor) torch.Tensor { return l.Dropout1.Forward(l.SelfAttn.Forward(x, x, x, self)) }
		remember := func(x torch.Tensor) torch.Tensor {
			return l.Dropout2.Forward(l.MultiheadAttn.Forward(x, memory, memory, cross))
		}
		if l.NormFirst {
			x := x.Add(attend(l.Norm1.Forward(x)))
			x = x.Add(remember(l.Norm2.Forward(x)))
			return x.Add(l.feedForward(l.Norm3.Forward(x)))
		}
		x := l.Norm1.Forward(x.Add(attend(x)))
		x = l.Norm2.Forward(x.Add(remember(x)))
		return l.Norm3.Forward(x.Add(l.feedForward(x)))
	})
}

func (l *TransformerDecoderLayer) feedForward(x torch.Tensor) torch.Tensor {
	return l.Dropout3.Forward(l.Linear2.Forward(l.Dropout.Forward(l.Activation.Forward(l.Linear1.Forward(x)))))
}

func (l *TransformerDecoderLayer) clone() *TransformerDecoderLayer {
	return &TransformerDecoderLayer{
		SelfAttn: l.SelfAttn.clone(), MultiheadAttn: l.MultiheadAttn.clone(),
		Linear1: l.Linear1.clone(), Dropout: NewDropout(l.Dropout.P), Linear2: l.Linear2.clone(),
		Norm1: l.Norm1.clone(), Norm2: l.Norm2.clone(), Norm3: l.Norm3.clone(),
		Dropout1: NewDropout(l.Dropout1.P), Dropout2: NewDropout(l.Dropout2.P), Dropout3: NewDropout(l.Dropout3.P),
		Activation: l.Activation, NormFirst: l.NormFirst,
	}
}

// TransformerDecoder is a stack of layers, followed by a norm: torch.nn.TransformerDecoder.
type TransformerDecoder struct {
	Layers []*TransformerDecoderLayer `module:"layers"`
	Norm   *LayerNorm                 `module:"norm"` // nil: none
}

// NewTransformerDecoder makes a TransformerDecoder of n copies of a layer, followed by norm unless
// it is nil. All layers start with the same weights, as in PyTorch; layer itself is not used.
func NewTransformerDecoder(layer *TransformerDecoderLayer, n int, norm *LayerNorm) *TransformerDecoder {
	mustBePositive("NewTransformerDecoder", "n", int64(n))
	d := &TransformerDecoder{Norm: norm}
	for range n {
		d.Layers = append(d.Layers, layer.clone())
	}
	return d
}

// Forward keeps the shape of x; see [TransformerDecoderLayer.Forward].
func (d *TransformerDecoder) Forward(x, memory torch.Tensor, self, cross AttentionMask) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		y := x
		for _, l := range d.Layers {
			y = l.Forward(y, memory, self, cross)
		}
		if d.Norm != nil {
			y = d.Norm.Forward(y)
		}
		return y
	})
}

// Transformer is an encoder and a decoder: torch.nn.Transformer.
type Transformer struct {
	Encoder *TransformerEncoder `module:"encoder"`
	Decoder *TransformerDecoder `module:"decoder"`
}

// NewTransformer makes a Transformer with the given numbers of features, heads and layers,
// initialised as in PyTorch, whose defaults are 512, 8, 6 and 6.
func NewTransformer(model, heads int64, encoderLayers, decoderLayers int, o *TransformerOptions) *Transformer {
	opt := o.resolved()
	t := &Transformer{}
	encoderLayer := NewTransformerEncoderLayer(model, heads, &opt)
	t.Encoder = NewTransformerEncoder(encoderLayer, encoderLayers, opt.norm(model))
	decoderLayer := NewTransformerDecoderLayer(model, heads, &opt)
	t.Decoder = NewTransformerDecoder(decoderLayer, decoderLayers, opt.norm(model))
	for _, p := range Params(t) {
		if p.Tensor.Dim() > 1 {
			initialize.XavierUniform(p.Tensor, 1, opt.Factory.Generator)
		}
	}
	return t
}

// TransformerMasks say what is hidden from the parts of a [Transformer]. The zero value hides
// nothing.
type TransformerMasks struct {
	Source AttentionMask // hides parts of the source from the encoder
	Target AttentionMask // hides parts of the target from the decoder; usually Causal
	Memory AttentionMask // hides parts of the encoder's output from the decoder
}

// Forward maps a source [S, N, E] and a target [L, N, E] to [L, N, E]. With BatchFirst, N comes
// first; without a batch, there is no N.
func (t *Transformer) Forward(source, target torch.Tensor, masks TransformerMasks) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		return t.Decoder.Forward(target, t.Encoder.Forward(source, masks.Source), masks.Target, masks.Memory)
	})
}
