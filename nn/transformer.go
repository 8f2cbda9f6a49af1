package nn

import (
	"cmp"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/nn/internal/later"
	"github.com/gotrainer/gotrainer/torch"
)

// TransformerOptions configures the layers of a transformer. Nil and the zero value mean PyTorch's
// defaults.
type TransformerOptions struct {
	FeedForward  int64               // units between the two linear layers of a block; zero means 2048
	Dropout      *float64            // while training; nil means 0.1
	Activation   Layer               // between the two linear layers, shared by copies of the layer; nil means ReLU
	LayerNormEps float64             // added to variances; zero means 1e-5
	BatchFirst   bool                // inputs are [N, L, E] instead of [L, N, E]
	NormFirst    bool                // normalise before attention and linear layers instead of after them
	NoBias       bool                // omit the biases of linear layers and norms
	Factory      torch.TensorOptions // dtype, device and generator of the parameters
}

// resolved returns the options with all defaults filled in.
func (o *TransformerOptions) resolved() TransformerOptions {
	r := deref(o)
	r.FeedForward = cmp.Or(r.FeedForward, 2048)
	r.Dropout = new(optional.Or(r.Dropout, 0.1))
	if r.Activation == nil {
		r.Activation = ReLU{}
	}
	r.LayerNormEps = cmp.Or(r.LayerNormEps, 1e-5)
	return r
}

func (o *TransformerOptions) attention(model, heads int64) *MultiheadAttention {
	return NewMultiheadAttention(model, heads, &MultiheadAttentionOptions{Dropout: *o.Dropout, NoBias: o.NoBias,
		BatchFirst: o.BatchFirst, Factory: o.Factory})
}

func (o *TransformerOptions) linear(in, out int64) *Linear {
	return NewLinear(in, out, &LinearOptions{NoBias: o.NoBias, Factory: o.Factory})
}

func (o *TransformerOptions) norm(model int64) *LayerNorm {
	return NewLayerNorm(Dims{model}, &LayerNormOptions{Eps: o.LayerNormEps, NoBias: o.NoBias, Factory: o.Factory})
}

// TransformerEncoderLayer is self-attention and a feed-forward network:
// torch.nn.TransformerEncoderLayer, after Vaswani et al. (2017).
type TransformerEncoderLayer struct {
	SelfAttn *MultiheadAttention `module:"self_attn"`
	Linear1  *Linear             `module:"linear1"`
	Dropout  *Dropout            `module:"dropout"`
	Linear2  *Linear             `module:"linear2"`
	Norm1    *LayerNorm          `module:"norm1"`
	Norm2    *LayerNorm          `module:"norm2"`
	Dropout1 *Dropout            `module:"dropout1"`
	Dropout2 *Dropout            `module:"dropout2"`

	Activation Layer `module:"activation"`
	NormFirst  bool
}

// NewTransformerEncoderLayer makes a TransformerEncoderLayer with the given numbers of features
// and heads, initialised as in PyTorch.
func NewTransformerEncoderLayer(model, heads int64, o *TransformerOptions) *TransformerEncoderLayer {
	opt := o.resolved()
	return &TransformerEncoderLayer{
		SelfAttn: opt.attention(model, heads),
		Linear1:  opt.linear(model, opt.FeedForward), Dropout: NewDropout(*opt.Dropout),
		Linear2: opt.linear(opt.FeedForward, model),
		Norm1:   opt.norm(model), Norm2: opt.norm(model), Dropout1: NewDropout(*opt.Dropout),
		Dropout2:   NewDropout(*opt.Dropout),
		Activation: opt.Activation, NormFirst: opt.NormFirst,
	}
}

// Forward keeps the shape of x: [L, N, E], [N, L, E] with BatchFirst, or [L, E].
func (l *TransformerEncoderLayer) Forward(x torch.Tensor, mask AttentionMask) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		attend := func(x torch.Tensor) torch.Tensor { return l.Dropout1.Forward(l.SelfAttn.Forward(x, x, x, mask)) }
		if l.NormFirst {
			x := x.Add(attend(l.Norm1.Forward(x)))
			return x.Add(l.feedForward(l.Norm2.Forward(x)))
		}
		x := l.Norm1.Forward(x.Add(attend(x)))
		return l.Norm2.Forward(x.Add(l.feedForward(x)))
	})
}

func (l *TransformerEncoderLayer) feedForward(x torch.Tensor) torch.Tensor {
	return l.Dropout2.Forward(l.Linear2.Forward(l.Dropout.Forward(l.Activation.Forward(l.Linear1.Forward(x)))))
}

// TransformerEncoder is a stack of layers, followed by a norm: torch.nn.TransformerEncoder.
type TransformerEncoder struct {
	Layers []*TransformerEncoderLayer `module:"layers"`
	Norm   *LayerNorm                 `module:"norm"` // nil: none
}

// NewTransformerEncoder makes a TransformerEncoder of n copies of a layer, followed by norm unless
// it is nil. All layers start with the same weights, as in PyTorch; layer itself is not used.
func NewTransformerEncoder(layer *TransformerEncoderLayer, n int, norm *LayerNorm) *TransformerEncoder {
	mustBePositive("NewTransformerEncoder", "n", int64(n))
	e := &TransformerEncoder{Norm: norm}
	for range n {
		e.Layers = append(e.Layers, layer.clone())
	}
	return e
}

// Forward keeps the shape of x; see [TransformerEncoderLayer.Forward].
func (e *TransformerEncoder) Forward(x torch.Tensor, mask AttentionMask) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		y := x
		for _, l := range e.Layers {
			y = l.Forward(y, mask)
		}
		if e.Norm != nil {
			y = e.Norm.Forward(y)
		}
		return y
	})
}

func (l *TransformerEncoderLayer) clone() *TransformerEncoderLayer {
	return &TransformerEncoderLayer{
		SelfAttn: l.SelfAttn.clone(), Linear1: l.Linear1.clone(), Dropout: NewDropout(l.Dropout.P),
		Linear2: l.Linear2.clone(),
		Norm1:   l.Norm1.clone(), Norm2: l.Norm2.clone(), Dropout1: NewDropout(l.Dropout1.P),
		Dropout2:   NewDropout(l.Dropout2.P),
		Activation: l.Activation, NormFirst: l.NormFirst,
	}
}

// copied returns a new parameter with the same values.
func copied(t torch.Tensor) torch.Tensor {
	if !t.Defined() {
		return t
	}
	if c, ok := later.Copy(t); ok {
		return c.Keep().RequiresGrad()
	}
	var c torch.Tensor
	torch.NoGrad(func() { c = Parameter(t.Clone()) })
	return c
}

func (l *Linear) clone() *Linear { return &Linear{Weight: copied(l.Weight), Bias: copied(l.Bias)} }

func (l *LayerNorm) clone() *LayerNorm {
	return &LayerNorm{Weight: copied(l.Weight), Bias: copied(l.Bias), Shape: l.Shape, Eps: l.Eps}
}

func (m *MultiheadAttention) clone() *MultiheadAttention {
	c := *m
	c.OutProj = m.OutProj.clone()
	for _, t := range []*torch.Tensor{&c.InProjWeight, &c.QProjWeight, &c.KProjWeight, &c.VProjWeight, &c.InProjBias,
		&c.BiasK, &c.BiasV} {
		*t = copied(*t)
	}
	return &c
}
