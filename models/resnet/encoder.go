package resnet

import (
	"math"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// encoder is ResNetModel of transformers. It computes what [Model] computes without its head, but
// its layers have other names, are drawn in another order and have more settings.
type encoder struct {
	Embedder struct {
		Embedder *convolution  `module:"embedder"`
		Pooler   *nn.MaxPool2d `module:"pooler"`
	} `module:"embedder"`
	Encoder struct {
		Stages []*stage `module:"stages"`
	} `module:"encoder"`
	Pooler *nn.AdaptiveAvgPool2d `module:"pooler"`

	channels int64
}

// stage is ResNetStage.
type stage struct {
	Layers nn.Sequential `module:"layers"`
}

// layer is ResNetBasicLayer and ResNetBottleNeckLayer.
type layer struct {
	Shortcut *convolution  `module:"shortcut"` // nil if input and output have the same size
	Layer    nn.Sequential `module:"layer"`

	activation transformer.Activation
}

// convolution is ResNetConvLayer and, without an activation, ResNetShortCut.
type convolution struct {
	Convolution   *nn.Conv2d `module:"convolution"`
	Normalization nn.Layer   `module:"normalization"` // nn.BatchNorm2d, or FrozenBatchNorm2d in a backbone

	activation transformer.Activation // nil: none
}

func newEncoder(c Config, b transformer.Builder) *encoder {
	m := &encoder{channels: c.NumChannels}
	m.Embedder.Embedder = newConvolution(b, c.NumChannels, c.EmbeddingSize, 7, 2, c.activation())
	m.Embedder.Pooler = nn.NewMaxPool2d(nn.Dims{3}, &nn.MaxPoolOptions{Stride: nn.Dims{2}, Padding: nn.Dims{1}})
	m.Pooler = nn.NewAdaptiveAvgPool2d(nn.Dims{1})
	in := c.EmbeddingSize
	for i, size := range c.HiddenSizes {
		s, stride := &stage{}, int64(1)
		if i > 0 || c.DownsampleInFirstStage {
			stride = 2
		}
		for range c.Depths[i] {
			s.Layers = append(s.Layers, newLayer(c, b, in, size, stride))
			in, stride = size, 1
		}
		m.Encoder.Stages = append(m.Encoder.Stages, s)
	}
	if !b.Undrawn {
		transformer.InitWeights(m, initializerRange, nil)
	}
	return m
}

func newLayer(c Config, b transformer.Builder, in, out, stride int64) *layer {
	l := &layer{activation: c.activation()}
	if in != out || stride != 1 {
		l.Shortcut = newConvolution(b, in, out, 1, stride, nil)
	}
	relu := torch.Tensor.ReLU
	if c.LayerType == BasicLayer {
		l.Layer = nn.Sequential{newConvolution(b, in, out, 3, stride, relu), newConvolution(b, out, out, 3, 1, nil)}
		return l
	}
	first, second, few := int64(1), stride, out/reduction
	if c.DownsampleInBottleneck {
		first, second = stride, 1
	}
	l.Layer = nn.Sequential{newConvolution(b, in, few, 1, first, relu), newConvolution(b, few, few, 3, second, relu),
		newConvolution(b, few, out, 1, 1, nil)}
	return l
}

func newConvolution(b transformer.Builder, in, out, kernel, stride int64, a transformer.Activation) *convolution {
	return &convolution{
		Convolution: b.Conv2d(in, out, nn.Dims{kernel}, nn.ConvOptions{Stride: nn.Dims{stride},
			Padding: nn.Dims{kernel / 2}, NoBias: true}),
		Normalization: b.BatchNorm2d(out), activation: a,
	}
}

// DrawWeights draws the convolution again, as transformers does after it has drawn it like those of
// other models.
func (c *convolution) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	if w := c.Convolution.Weight; wanted("convolution.weight", w) {
		initialize.KaimingNormal(w, initialize.KaimingOptions{Mode: initialize.FanOut, Nonlinearity: initialize.ReLU})
	}
}

// Forward maps the pixels of images, [B, channels, height, width], to [B, hidden, 1, 1]. Pixels are
// converted to the dtype of the weights. Forward panics with [*torch.Error] if the images have
// another number of channels.
func (m *encoder) Forward(pixels torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor { return m.Pooler.Forward(m.features(pixels)) })
}

// features returns what Forward pools.
func (m *encoder) features(pixels torch.Tensor) torch.Tensor {
	if shape := pixels.Shape(); len(shape) != 4 || shape[1] != m.channels {
		panic(torch.Errorf("resnet.Forward", torch.ErrInvalid, "the pixels are %v; want [B, %d, height, width]", shape,
			m.channels))
	}
	return torch.Return(func() torch.Tensor {
		x := pixels.ToDType(m.Embedder.Embedder.Convolution.Weight.DType())
		x = m.Embedder.Pooler.Forward(m.Embedder.Embedder.Forward(x))
		for _, s := range m.Encoder.Stages {
			x = s.Layers.Forward(x)
		}
		return x
	})
}

// Forward maps [B, in, H, W] to [B, out, H/stride, W/stride].
func (l *layer) Forward(x torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		y, residual := l.Layer.Forward(x), x
		if l.Shortcut != nil {
			residual = l.Shortcut.Forward(x)
		}
		return l.activation(y.Add_(residual))
	})
}

// Forward maps [B, in, H, W] to [B, out, H/stride, W/stride].
func (c *convolution) Forward(x torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		x = c.Normalization.Forward(c.Convolution.Forward(x))
		if c.activation == nil {
			return x
		}
		return c.activation(x)
	})
}

// head is the head of ResNetForImageClassification.
type head struct {
	Classifier nn.Sequential `module:"classifier"`
}

func newHead(c Config, b transformer.Builder) *head {
	return &head{nn.Sequential{nn.NewFlatten(), b.Linear(c.HiddenSizes[len(c.HiddenSizes)-1], c.NumLabels)}}
}

// DrawWeights draws the linear layer again, like PyTorch's constructor, as transformers does after
// it has drawn it like those of other models.
func (h *head) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	l := h.Classifier[1].(*nn.Linear)
	if wanted("classifier.1.weight", l.Weight) {
		initialize.KaimingUniform(l.Weight, initialize.KaimingOptions{A: math.Sqrt(5)})
	}
	if in, _ := initialize.Fans(l.Weight); wanted("classifier.1.bias", l.Bias) {
		bound := 1 / math.Sqrt(float64(in))
		initialize.Uniform(l.Bias, -bound, bound, nil)
	}
}

// Forward maps [B, hidden, 1, 1] to [B, labels].
func (h *head) Forward(pooled torch.Tensor) torch.Tensor { return h.Classifier.Forward(pooled) }
