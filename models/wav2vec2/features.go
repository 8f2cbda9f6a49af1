package wav2vec2

import (
	"math"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// FeatureEncoder is Wav2Vec2FeatureEncoder: convolutions that make frames of samples.
type FeatureEncoder struct {
	nn.Mode
	ConvLayers []*ConvLayer `module:"conv_layers"`

	checkpointing bool
}

// ConvLayer is a convolution, which may be normalized: Wav2Vec2GroupNormConvLayer,
// Wav2Vec2LayerNormConvLayer or Wav2Vec2NoLayerNormConvLayer.
type ConvLayer struct {
	Conv *nn.Conv1d `module:"conv"`
	// LayerNorm is an *nn.GroupNorm or an *nn.LayerNorm, or nil.
	LayerNorm nn.Layer `module:"layer_norm"`

	activation transformer.Activation
	hubert     bool
}

// convNormEps is PyTorch's default, which no config changes.
const convNormEps = 1e-5

func newFeatureEncoder(c Config, b transformer.Builder) *FeatureEncoder {
	e := &FeatureEncoder{}
	in := int64(1)
	for i, out := range c.ConvDim {
		activation, _ := transformer.ActivationByName(c.FeatExtractActivation)
		l := &ConvLayer{activation: activation, hubert: c.HuBERT, Conv: b.Conv1dWith(in, out, c.ConvKernel[i],
			nn.ConvOptions{Stride: nn.Dims{c.ConvStride[i]}, NoBias: !c.ConvBias})}
		switch {
		case c.FeatExtractNorm == layerNorm:
			l.LayerNorm = b.LayerNorm(out, convNormEps)
		case i == 0:
			l.LayerNorm = b.GroupNorm(out)
		}
		e.ConvLayers = append(e.ConvLayers, l)
		in = out
	}
	return e
}

// DrawWeights draws the convolution a second time, as transformers does.
func (l *ConvLayer) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	drawConv(l.Conv.Weight, l.Conv.Bias, 1, l.hubert, func(name string, t torch.Tensor) bool {
		return wanted("conv."+name, t)
	})
}

// drawConv draws the weight of a convolution, [out, in/groups, k], from a normal distribution that
// keeps the variance of its input, and its bias from a uniform one, or zeros in HuBERT.
func drawConv(weight, bias torch.Tensor, groups int64, hubert bool, wanted func(name string, t torch.Tensor) bool) {
	if wanted("weight", weight) {
		initialize.KaimingNormal(weight, initialize.KaimingOptions{})
	}
	switch {
	case !wanted("bias", bias):
	case hubert:
		initialize.Zeros(bias)
	default:
		// transformers divides by all input channels, of which each group has a part.
		k := math.Sqrt(float64(groups) / float64(weight.Size(1)*groups*weight.Size(2)))
		initialize.Uniform(bias, -k, k, nil)
	}
}

func (l *ConvLayer) forward(x torch.Tensor) torch.Tensor {
	x = l.Conv.Forward(x)
	switch norm := l.LayerNorm.(type) {
	case nil:
	case *nn.LayerNorm:
		x = norm.Forward(x.Transpose(-2, -1)).Transpose(-2, -1)
	default:
		x = norm.Forward(x)
	}
	return l.activation(x)
}

// Forward maps samples, [B, samples], to features, [B, size, frames].
func (e *FeatureEncoder) Forward(values torch.Tensor) torch.Tensor {
	x := values.Unsqueeze(1)
	for _, l := range e.ConvLayers {
		if !e.checkpointing || !e.Training() {
			x = torch.Return(func() torch.Tensor { return l.forward(x) })
			continue
		}
		x = torch.Checkpoint(func(in []torch.Tensor) []torch.Tensor { return []torch.Tensor{l.forward(in[0])} }, x)[0]
	}
	return x
}

// FeatureProjection is Wav2Vec2FeatureProjection: a linear map of features to hidden states.
type FeatureProjection struct {
	LayerNorm  *nn.LayerNorm `module:"layer_norm"` // nil in some HuBERTs
	Projection *nn.Linear    `module:"projection"`
	Dropout    *nn.Dropout   `module:"dropout"`

	hubert bool
}

func newFeatureProjection(c Config, b transformer.Builder) *FeatureProjection {
	size := c.ConvDim[len(c.ConvDim)-1]
	p := &FeatureProjection{hubert: c.HuBERT, Dropout: nn.NewDropout(c.FeatProjDropout)}
	if !c.NoFeatProjLayerNorm {
		p.LayerNorm = b.LayerNorm(size, c.LayerNormEps)
	}
	p.Projection = b.Linear(size, c.HiddenSize)
	return p
}

// DrawWeights draws the projection a second time, as transformers does except in HuBERT.
func (p *FeatureProjection) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	if p.hubert {
		return
	}
	k := math.Sqrt(1 / float64(p.Projection.Weight.Size(1)))
	for _, t := range []torch.Named{{Name: "projection.weight", Tensor: p.Projection.Weight},
		{Name: "projection.bias", Tensor: p.Projection.Bias}} {
		if wanted(t.Name, t.Tensor) {
			initialize.Uniform(t.Tensor, -k, k, nil)
		}
	}
}

// Forward maps features, [B, frames, size], to hidden states, [B, frames, hidden].
func (p *FeatureProjection) Forward(x torch.Tensor) torch.Tensor {
	if p.LayerNorm != nil {
		x = p.LayerNorm.Forward(x)
	}
	return p.Dropout.Forward(p.Projection.Forward(x))
}
