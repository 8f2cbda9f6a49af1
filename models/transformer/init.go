package transformer

import (
	"math"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// Builder makes the layers of a model. The zero value draws each layer's weights as PyTorch's
// constructor does; transformers then redraws them from its own distribution: see [InitWeights].
// Both take numbers from the generator, so a seed gives transformers' bits only if both are drawn.
type Builder struct {
	Undrawn bool // do not draw weights: they will be loaded, and no random numbers may be used up

	DType torch.DType // of the weights; zero: float32

	Alone bool // the encoder has no head, and so the pooler that its class has by itself: AutoModel
	// WithPooler gives an encoder that pooler for a head that uses it: add_pooling_layer.
	WithPooler bool
}

// factory returns the options with which weights are created.
func (b Builder) factory() torch.TensorOptions { return torch.TensorOptions{DType: b.DType} }

// Pooler is BertPooler: a linear layer and tanh over the first token.
type Pooler struct {
	Dense *nn.Linear `module:"dense"`
}

// Pooler makes the pooler of an encoder, or nil if it is built without one.
func (b Builder) Pooler(size int64) *Pooler {
	if !b.Alone && !b.WithPooler {
		return nil
	}
	return &Pooler{b.Linear(size, size)}
}

// Forward maps hidden states, [B, L, hidden], to [B, hidden].
func (p *Pooler) Forward(hidden torch.Tensor) torch.Tensor {
	return p.Dense.Forward(hidden.Select(1, 0)).Tanh()
}

// Linear makes a linear layer.
func (b Builder) Linear(in, out int64) *nn.Linear {
	if !b.Undrawn {
		return nn.NewLinear(in, out, &nn.LinearOptions{Factory: b.factory()})
	}
	return &nn.Linear{Weight: nn.Parameter(b.factory().Empty(out, in)), Bias: nn.Parameter(b.factory().Empty(out))}
}

// LinearNoBias makes a linear layer without a bias.
func (b Builder) LinearNoBias(in, out int64) *nn.Linear {
	if !b.Undrawn {
		return nn.NewLinear(in, out, &nn.LinearOptions{NoBias: true, Factory: b.factory()})
	}
	return &nn.Linear{Weight: nn.Parameter(b.factory().Empty(out, in))}
}

// LinearWith makes a linear layer with a bias or without one.
func (b Builder) LinearWith(in, out int64, bias bool) *nn.Linear {
	if bias {
		return b.Linear(in, out)
	}
	return b.LinearNoBias(in, out)
}

// Conv1d makes a convolution of sequences, padded with zeros.
func (b Builder) Conv1d(in, out, kernel, stride, padding int64) *nn.Conv1d {
	return b.Conv1dWith(in, out, kernel, nn.ConvOptions{Stride: nn.Dims{stride}, Padding: nn.Dims{padding}})
}

// Conv1dWith is [Builder.Conv1d] with a stride, a padding, groups and without a bias, as o says. It
// sets the factory of o.
func (b Builder) Conv1dWith(in, out, kernel int64, o nn.ConvOptions) *nn.Conv1d {
	o.Factory = b.factory()
	if !b.Undrawn {
		return nn.NewConv1d(in, out, nn.Dims{kernel}, &o)
	}
	one := func(d nn.Dims, fallback int64) []int64 {
		if len(d) == 0 {
			return []int64{fallback}
		}
		return d
	}
	o.Groups = max(1, o.Groups)
	c := &nn.Conv1d{Weight: nn.Parameter(o.Factory.Empty(out, in/o.Groups, kernel)),
		Options: torch.ConvOptions{Stride: one(o.Stride, 1), Padding: one(o.Padding, 0), Dilation: []int64{1},
			Groups: o.Groups}}
	if !o.NoBias {
		c.Bias = nn.Parameter(o.Factory.Empty(out))
	}
	return c
}

// GroupNorm makes a normalisation of each channel of sequences by itself.
func (b Builder) GroupNorm(channels int64) *nn.GroupNorm {
	return nn.NewGroupNorm(channels, channels, &nn.GroupNormOptions{Factory: b.factory()})
}

// Conv2d makes a convolution of images, padded with zeros. It sets the factory of o.
func (b Builder) Conv2d(in, out int64, kernel nn.Dims, o nn.ConvOptions) *nn.Conv2d {
	o.Factory = b.factory()
	if !b.Undrawn {
		return nn.NewConv2d(in, out, kernel, &o)
	}
	both := func(d nn.Dims, fallback int64) nn.Dims {
		switch len(d) {
		case 0:
			return nn.Dims{fallback, fallback}
		case 1:
			return nn.Dims{d[0], d[0]}
		}
		return d
	}
	kernel, o.Groups = both(kernel, 1), max(1, o.Groups)
	c := &nn.Conv2d{Weight: nn.Parameter(o.Factory.Empty(out, in/o.Groups, kernel[0], kernel[1])),
		Options: torch.ConvOptions{Stride: both(o.Stride, 1), Padding: both(o.Padding, 0), Dilation: both(o.Dilation, 1),
			Groups: o.Groups}}
	if !o.NoBias {
		c.Bias = nn.Parameter(o.Factory.Empty(out))
	}
	return c
}

// BatchNorm2d makes a batch normalisation of images.
func (b Builder) BatchNorm2d(channels int64) *nn.BatchNorm2d {
	return nn.NewBatchNorm2d(channels, &nn.BatchNormOptions{Factory: b.factory()})
}

// Parameter makes a parameter whose numbers are not drawn yet.
func (b Builder) Parameter(shape ...int64) torch.Tensor {
	return nn.Parameter(b.factory().Empty(shape...))
}

// Embedding makes an embedding; nil means no padding row.
func (b Builder) Embedding(words, dim int64, padding *int64) *nn.Embedding {
	if !b.Undrawn {
		return nn.NewEmbedding(words, dim, &nn.EmbeddingOptions{PaddingIdx: padding, Factory: b.factory()})
	}
	return &nn.Embedding{Weight: nn.Parameter(b.factory().Empty(words, dim)), PaddingIdx: padding}
}

// LayerNorm makes a layer normalisation.
func (b Builder) LayerNorm(size int64, eps float64) *nn.LayerNorm {
	return nn.NewLayerNorm(nn.Dims{size}, &nn.LayerNormOptions{Eps: eps, Factory: b.factory()})
}

// InitWeights draws weights as transformers' _init_weights does: from a normal distribution with
// standard deviation std for linear layers, convolutions and embeddings, zeros for biases and
// padding rows, and ones for the weights of layer normalisations. It visits the modules of m in the
// order of their fields, each after those inside it. Only tensors whose names are in missing are
// drawn; nil means all.
func InitWeights(m any, std float64, missing map[string]bool) { initWeights(m, std, again{}, missing) }

// InitTruncated is [InitWeights] for models that then draw the weights of linear layers and
// convolutions once more, from the normal distribution cut off at -2 and 2.
func InitTruncated(m any, std float64, missing map[string]bool) {
	initWeights(m, std, truncatedAgain(std), missing)
}

// InitFlax is [InitWeights] for models that then draw the weights once more as Flax does: those of
// linear layers and convolutions by lecun_normal_ of transformers, and those of embeddings by
// default_flax_embed_init_.
func InitFlax(m any, std float64, missing map[string]bool) { initWeights(m, std, flaxAgain, missing) }

// again is how a model draws weights once more after those of the usual distribution; nil: not.
type again struct{ affine, embedding func(weight torch.Tensor) }

func truncatedAgain(std float64) again {
	return again{affine: func(weight torch.Tensor) { initialize.TruncNormal(weight, 0, std, -2, 2, nil) }}
}

var flaxAgain = again{
	affine: func(weight torch.Tensor) {
		const cut = 0.87962566103423978 // the standard deviation that is left of 1 between -2 and 2
		initialize.TruncNormal(weight, 0, fanInStd(weight)/cut, -2, 2, nil)
	},
	embedding: func(weight torch.Tensor) { initialize.Normal(weight, 0, fanInStd(weight), nil) },
}

// fanInStd is the standard deviation that keeps the variance of what a weight is multiplied with.
func fanInStd(weight torch.Tensor) float64 {
	in, _ := initialize.Fans(weight)
	return math.Sqrt(1 / float64(in))
}

func initWeights(m any, std float64, redraw again, missing map[string]bool) {
	torch.NoGrad(func() { torch.Scope(func() { initWithin("", m, std, redraw, missing) }) })
}

func initWithin(prefix string, m any, std float64, redraw again, missing map[string]bool) {
	for _, child := range nn.Children(m) {
		initWithin(prefix+child.Name+".", child.Module, std, redraw, missing)
	}
	initModule(m, std, redraw, func(name string, t torch.Tensor) bool {
		return t.Defined() && (missing == nil || missing[prefix+name])
	})
}

// WeightDrawer is a module that redraws weights after those of the modules in it were drawn.
type WeightDrawer interface {
	// DrawWeights draws those that are wanted; std is the standard deviation of the others.
	DrawWeights(std float64, wanted func(name string, t torch.Tensor) bool)
}

func initModule(module any, std float64, redraw again, wanted func(name string, t torch.Tensor) bool) {
	affine := func(weight, bias torch.Tensor) {
		if wanted("weight", weight) {
			initialize.Normal(weight, 0, std, nil)
			if redraw.affine != nil {
				redraw.affine(weight)
			}
		}
		if wanted("bias", bias) {
			initialize.Zeros(bias)
		}
	}
	switch l := module.(type) {
	case WeightDrawer:
		l.DrawWeights(std, wanted)
	case *nn.Linear:
		affine(l.Weight, l.Bias)
	case *Conv1D:
		affine(l.Weight, l.Bias)
	case *nn.Conv1d:
		affine(l.Weight, l.Bias)
	case *nn.Conv2d:
		affine(l.Weight, l.Bias)
	case *nn.Embedding:
		if wanted("weight", l.Weight) {
			initialize.Normal(l.Weight, 0, std, nil)
			if l.PaddingIdx != nil {
				l.Weight.Select(0, *l.PaddingIdx).Zero_()
			}
			if redraw.embedding != nil {
				redraw.embedding(l.Weight)
			}
		}
	case *RMSNorm:
		if wanted("weight", l.Weight) {
			initialize.Ones(l.Weight)
			if l.OnePlus {
				initialize.Zeros(l.Weight)
			}
		}
	case *nn.LayerNorm:
		neutral(l.Weight, l.Bias, wanted)
	case *nn.MultiheadAttention:
		if wanted("in_proj_weight", l.InProjWeight) {
			initialize.XavierUniform(l.InProjWeight, 1, nil)
		}
		for _, bias := range []torch.Named{{Name: "in_proj_bias", Tensor: l.InProjBias},
			{Name: "out_proj.bias", Tensor: l.OutProj.Bias}} {
			if wanted(bias.Name, bias.Tensor) {
				initialize.Zeros(bias.Tensor)
			}
		}
	case *nn.GroupNorm:
		neutral(l.Weight, l.Bias, wanted)
	case *nn.BatchNorm1d:
		neutral(l.Weight, l.Bias, wanted)
	}
}

// neutral makes a normalisation keep what it has normalized.
func neutral(weight, bias torch.Tensor, wanted func(name string, t torch.Tensor) bool) {
	if wanted("weight", weight) {
		initialize.Ones(weight)
	}
	if wanted("bias", bias) {
		initialize.Zeros(bias)
	}
}
