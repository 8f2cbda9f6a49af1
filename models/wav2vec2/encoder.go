package wav2vec2

import (
	"math"
	"strings"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// Encoder is Wav2Vec2Encoder or Wav2Vec2EncoderStableLayerNorm.
type Encoder struct {
	nn.Mode
	PosConvEmbed *PosConvEmbedding `module:"pos_conv_embed"`
	LayerNorm    *nn.LayerNorm     `module:"layer_norm"`
	Dropout      *nn.Dropout       `module:"dropout"`
	Layers       []*Layer          `module:"layers"`

	config        Config
	checkpointing bool
}

func newEncoder(c Config, b transformer.Builder) *Encoder {
	e := &Encoder{config: c, PosConvEmbed: newPosConvEmbedding(c, b), LayerNorm: b.LayerNorm(c.HiddenSize, c.LayerNormEps),
		Dropout: nn.NewDropout(*c.HiddenDropout)}
	for range c.NumLayers {
		e.Layers = append(e.Layers, newLayer(c, b))
	}
	return e
}

// Layerdrop is the probability with which a layer is left out in training: engine.LayerDropper.
func (e *Encoder) Layerdrop() float64 { return *e.config.Layerdrop }

// forward maps hidden states, [B, frames, hidden], to hidden states of the same shape. padding, [B,
// frames], is true where there is no sound; attended is where frames are attended to, or undefined.
// It also returns the input of the first layer and the outputs of all.
func (e *Encoder) forward(x, padding, attended torch.Tensor) (hidden torch.Tensor, layers []torch.Tensor) {
	if padding.Defined() {
		x = x.MaskedFill(padding.Unsqueeze(-1), 0)
	}
	mask := transformer.Mask{Padding: transformer.PaddingMask(attended, x.DType(), e.config.Attention)}
	x = x.Add(e.PosConvEmbed.forward(x))
	if !e.config.DoStableLayerNorm {
		x = e.LayerNorm.Forward(x)
	}
	x = e.Dropout.Forward(x)
	layers = []torch.Tensor{x}
	for _, l := range e.Layers {
		if !e.drops() {
			x = e.run(l, x, mask)
		}
		layers = append(layers, x)
	}
	if e.config.DoStableLayerNorm {
		x = e.LayerNorm.Forward(x)
	}
	return x, layers
}

func (e *Encoder) run(l *Layer, x torch.Tensor, mask transformer.Mask) torch.Tensor {
	if !e.checkpointing || !e.Training() {
		return torch.Return(func() torch.Tensor { return l.forward(x, mask) })
	}
	return torch.Checkpoint(func(in []torch.Tensor) []torch.Tensor {
		// Passing a view avoids that autocast casts a leaf once for query, key and value together, which
		// would sum their gradients in lower precision.
		return []torch.Tensor{l.forward(in[0].View(in[0].Shape()...), transformer.Mask{Padding: in[1]})}
	}, x, mask.Padding)[0]
}

// drops reports whether a layer is left out. transformers draws a number for each layer even in
// evaluation mode, where all of them run.
func (e *Encoder) drops() (dropped bool) {
	torch.Scope(func() { dropped = torch.Rand().Item() < float64(float32(*e.config.Layerdrop)) })
	return dropped && e.Training()
}

// PosConvEmbedding is Wav2Vec2PositionalConvEmbedding: a convolution whose output stands for the
// position of a frame.
type PosConvEmbedding struct {
	// Conv is normalized by weight, or in some HuBERTs not at all.
	Conv nn.Layer `module:"conv"`
	// BatchNorm is that of such a HuBERT.
	BatchNorm *nn.BatchNorm1d `module:"batch_norm"`

	conv       *nn.Conv1d `module:"-"` // as it was made
	activation transformer.Activation
	even       bool // the convolution makes one frame too many
	hubert     bool
	undrawn    bool // it was made for weights of files
}

func newPosConvEmbedding(c Config, b transformer.Builder) *PosConvEmbedding {
	activation, _ := transformer.ActivationByName(c.FeatExtractActivation)
	width := c.NumConvPosEmbeddings
	p := &PosConvEmbedding{activation: activation, even: width%2 == 0, hubert: c.HuBERT, undrawn: b.Undrawn,
		conv: b.Conv1dWith(c.HiddenSize, c.HiddenSize, width, nn.ConvOptions{Padding: nn.Dims{width / 2},
			Groups: c.NumConvPosEmbeddingGroups})}
	if c.ConvPosBatchNorm {
		p.Conv, p.BatchNorm = p.conv, nn.NewBatchNorm1d(c.HiddenSize, &nn.BatchNormOptions{
			Factory: torch.TensorOptions{DType: b.DType}})
		return p
	}
	p.Conv = nn.NewWeightNorm(p.conv, normDim)
	return p
}

// DrawWeights draws the numbers that transformers does. It draws the normalized weight, which is
// computed anew in every pass, so that the two parts of which it is computed stay those of
// PyTorch's convolution. If a file lacks them, they become those of what was drawn; transformers
// leaves them uninitialized.
func (p *PosConvEmbedding) DrawWeights(std float64, wanted func(name string, t torch.Tensor) bool) {
	inConv := func(name string, t torch.Tensor) bool { return wanted("conv."+name, t) }
	weight := p.conv.Weight
	if p.BatchNorm == nil {
		weight = weight.Clone()
		inConv = func(name string, t torch.Tensor) bool {
			if name == "weight" {
				name = "parametrizations.weight.original1"
			}
			return wanted("conv."+name, t)
		}
		if inConv("weight", weight) {
			initialize.Normal(weight, 0, std, nil)
		}
		if inConv("bias", p.conv.Bias) {
			initialize.Zeros(p.conv.Bias)
		}
	}
	groups := p.conv.Options.Groups
	drawConv(weight, p.conv.Bias, groups, p.hubert, inConv)
	if !p.hubert {
		if inConv("weight", weight) {
			initialize.Normal(weight, 0, 2*math.Sqrt(1/float64(weight.Size(2)*weight.Size(1)*groups)), nil)
		}
		if inConv("bias", p.conv.Bias) {
			initialize.Zeros(p.conv.Bias)
		}
	}
	if p.undrawn && p.BatchNorm == nil && inConv("weight", weight) {
		p.setWeight(weight)
	}
}

// setWeight sets the length and the direction of which the weight is computed.
func (p *PosConvEmbedding) setWeight(weight torch.Tensor) {
	for _, part := range nn.Params(p.Conv) {
		switch {
		case strings.HasSuffix(part.Name, "original0"):
			part.Tensor.Copy_(torch.Call("aten::norm_except_dim", weight, 2, normDim)[0])
		case strings.HasSuffix(part.Name, "original1"):
			part.Tensor.Copy_(weight)
		}
	}
}

// normDim is the dimension of the weight along which its length is a parameter.
const normDim = 2

// forward maps hidden states, [B, frames, hidden], to embeddings of the same shape.
func (p *PosConvEmbedding) forward(x torch.Tensor) torch.Tensor {
	frames := x.Size(1)
	x = x.Transpose(1, 2)
	if p.BatchNorm != nil {
		x = p.BatchNorm.Forward(x)
	}
	x = p.Conv.Forward(x)
	if p.even {
		x = x.Narrow(2, 0, frames)
	}
	return p.activation(x).Transpose(1, 2)
}
