package convnext

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is ConvNextModel, or ConvNextV2Model: pixels in, a vector for each image out.
type Model struct {
	Embeddings *Embeddings   `module:"embeddings"`
	Encoder    *Encoder      `module:"encoder"`
	LayerNorm  *nn.LayerNorm `module:"layernorm"`

	config Config
}

// Embeddings is ConvNextEmbeddings: a linear map of each patch, and its normalization.
type Embeddings struct {
	PatchEmbeddings *nn.Conv2d    `module:"patch_embeddings"`
	LayerNorm       *nn.LayerNorm `module:"layernorm"`
}

// Encoder is ConvNextEncoder: the stages.
type Encoder struct {
	nn.Mode
	Stages []*Stage `module:"stages"`

	checkpointing bool
}

// Stage is ConvNextStage: layers that change neither the number of channels nor the size, after a
// downsampling that does.
type Stage struct {
	Downsampling *Downsampling `module:"downsampling_layer"` // nil in the first stage
	Layers       []*Layer      `module:"layers"`
}

// Downsampling halves height and width.
type Downsampling struct {
	LayerNorm *nn.LayerNorm `module:"0"`
	Conv      *nn.Conv2d    `module:"1"`
}

// innerEps is added to the variance by all normalizations but the last.
const innerEps = 1e-6

func newModel(c Config, b transformer.Builder) *Model {
	first := c.HiddenSizes[0]
	patch := nn.Dims{c.PatchSize.Height, c.PatchSize.Width}
	m := &Model{config: c}
	m.Embeddings = &Embeddings{b.Conv2d(c.NumChannels, first, patch, nn.ConvOptions{Stride: patch}),
		b.LayerNorm(first, innerEps)}
	m.Encoder = newEncoder(c, b)
	m.LayerNorm = b.LayerNorm(c.HiddenSizes[len(c.HiddenSizes)-1], c.LayerNormEps)
	if !b.Undrawn {
		// ConvNextEncoder is a PreTrainedModel of its own, so transformers draws it first.
		transformer.InitWeights(m.Encoder, c.InitializerRange, nil)
		transformer.InitWeights(m.Embeddings, c.InitializerRange, nil)
	}
	return m
}

func newEncoder(c Config, b transformer.Builder) *Encoder {
	e := &Encoder{}
	rates := dropPathRates(c, b)
	in := c.HiddenSizes[0]
	for i, size := range c.HiddenSizes {
		s := &Stage{}
		if i > 0 {
			s.Downsampling = &Downsampling{b.LayerNorm(in, innerEps), b.Conv2d(in, size, nn.Dims{2},
				nn.ConvOptions{Stride: nn.Dims{2}})}
		}
		for range c.Depths[i] {
			s.Layers = append(s.Layers, newLayer(c, b, size, rates[0]))
			rates = rates[1:]
		}
		e.Stages = append(e.Stages, s)
		in = size
	}
	return e
}

// dropPathRates returns the drop path rate of each layer, computed in the dtype of the weights.
func dropPathRates(c Config, b transformer.Builder) (rates []float64) {
	layers := int64(0)
	for _, depth := range c.Depths {
		layers += depth
	}
	torch.Scope(func() {
		even := torch.TensorOptions{DType: b.DType}.Linspace(0, c.DropPathRate, layers)
		rates = torch.Values[float64](even.ToDType(torch.Float64))
	})
	return rates
}

// Forward maps the pixels of images, [B, channels, height, width], to [B, hidden]. Pixels are
// converted to the dtype of the weights. Forward panics with [*torch.Error] if the images have
// another number of channels, or are too small.
func (m *Model) Forward(pixels torch.Tensor) torch.Tensor {
	m.check(pixels.Shape())
	return torch.Return(func() torch.Tensor {
		x := m.Embeddings.Forward(pixels.ToDType(m.LayerNorm.Weight.DType()))
		return m.LayerNorm.Forward(m.Encoder.Forward(x).MeanDim([]int64{-2, -1}, false, torch.DefaultDType))
	})
}

// check panics for images that the model does not accept.
func (m *Model) check(shape []int64) {
	c, wrong := m.config, ""
	halved := int64(1) << (len(c.HiddenSizes) - 1)
	height, width := c.PatchSize.Height*halved, c.PatchSize.Width*halved
	switch {
	case len(shape) != 4 || shape[1] != c.NumChannels:
		wrong = fmt.Sprintf("the pixels are %v; want [B, %d, height, width]", shape, c.NumChannels)
	case shape[2] < height || shape[3] < width:
		wrong = fmt.Sprintf("the pictures have %dx%d pixels; want at least %dx%d, one vector after the last stage", shape[2],
			shape[3], height, width)
	}
	if wrong != "" {
		panic(torch.Errorf("convnext.Model.Forward", torch.ErrInvalid, "%s", wrong))
	}
}

// Forward maps pixels, [B, channels, height, width], to the vectors of patches, [B, hidden, rows,
// columns].
func (e *Embeddings) Forward(pixels torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor { return channelsFirst(e.LayerNorm, e.PatchEmbeddings.Forward(pixels)) })
}

// Forward runs the stages.
func (e *Encoder) Forward(x torch.Tensor) torch.Tensor {
	for _, s := range e.Stages {
		if s.Downsampling != nil {
			x = s.Downsampling.Forward(x)
		}
		for _, l := range s.Layers {
			if e.checkpointing && e.Training() {
				x = torch.Checkpoint(func(in []torch.Tensor) []torch.Tensor {
					return []torch.Tensor{l.Forward(in[0])}
				}, x)[0]
			} else {
				x = l.Forward(x)
			}
		}
	}
	return x
}

// SetGradientCheckpointing makes training keep only the inputs of each layer and recompute the rest
// in the backward pass: less memory, a third more time. Sums of gradients may be added in another
// order. transformers' ConvNeXt cannot do this.
func (e *Encoder) SetGradientCheckpointing(on bool) { e.checkpointing = on }

// Forward maps [B, in, H, W] to [B, out, H/2, W/2].
func (d *Downsampling) Forward(x torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor { return d.Conv.Forward(channelsFirst(d.LayerNorm, x)) })
}

// channelsFirst normalizes over the channels of [B, C, H, W].
func channelsFirst(l *nn.LayerNorm, x torch.Tensor) torch.Tensor {
	return l.Forward(x.Permute(0, 2, 3, 1)).Permute(0, 3, 1, 2)
}
