package siglip

import (
	"fmt"
	"math"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// VisionModel is SiglipVisionModel: pixels in, hidden states of patches out.
type VisionModel struct {
	Embeddings    *VisionEmbeddings `module:"embeddings"`
	Encoder       *Encoder          `module:"encoder"`
	PostLayerNorm *nn.LayerNorm     `module:"post_layernorm"`
	Head          *PoolingHead      `module:"head"` // nil: there is none

	config VisionConfig
}

// VisionEmbeddings is SiglipVisionEmbeddings: the patches and their positions.
type VisionEmbeddings struct {
	PatchEmbedding    *nn.Conv2d    `module:"patch_embedding"`
	PositionEmbedding *nn.Embedding `module:"position_embedding"`

	config      VisionConfig
	interpolate bool
}

func newVisionModel(c VisionConfig, a transformer.Attention, b transformer.Builder) *VisionModel {
	m := &VisionModel{config: c, Embeddings: &VisionEmbeddings{config: c}}
	patch := nn.Dims{c.PatchSize, c.PatchSize}
	m.Embeddings.PatchEmbedding = b.Conv2d(c.NumChannels, c.HiddenSize, patch, nn.ConvOptions{Stride: patch})
	m.Embeddings.PositionEmbedding = b.Embedding(c.patches(), c.HiddenSize, nil)
	m.Encoder = newEncoder(c.Layers, a, b)
	m.PostLayerNorm = b.LayerNorm(c.HiddenSize, c.LayerNormEps)
	if c.hasHead() {
		m.Head = newPoolingHead(c, b)
	}
	if !b.Undrawn {
		transformer.InitFlax(m, initializerRange, nil)
	}
	return m
}

// patches is the number of patches of an image.
func (c VisionConfig) patches() int64 {
	side := c.ImageSize / c.PatchSize
	return side * side
}

// DrawWeights draws the positions: transformer.WeightDrawer.
func (e *VisionEmbeddings) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	drawNormal(wanted, "position_embedding.weight", e.PositionEmbedding.Weight, 1/math.Sqrt(float64(e.config.HiddenSize)))
}

// Forward maps the pixels of images, [B, channels, height, width], to the hidden states of their
// patches, [B, patches, hidden]. Pixels are converted to the dtype of the weights. Forward panics
// with [*torch.Error] if the images do not have the size VisionConfig.ImageSize, unless positions
// are interpolated.
func (m *VisionModel) Forward(pixels torch.Tensor) torch.Tensor {
	x := m.Embeddings.Forward(pixels.ToDType(m.PostLayerNorm.Weight.DType()))
	return m.PostLayerNorm.Forward(m.Encoder.Forward(x, transformer.Mask{WideSoftmax: true}))
}

// InterpolatePosEncoding makes Forward take images of any size. The positions of patches are
// interpolated between those that the model knows: interpolate_pos_encoding of transformers.
func (m *VisionModel) InterpolatePosEncoding(on bool) error {
	m.Embeddings.interpolate = on
	return nil
}

// Forward maps pixels, [B, channels, height, width], to [B, patches, hidden].
func (e *VisionEmbeddings) Forward(pixels torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		e.check(pixels.Shape())
		return e.PatchEmbedding.Forward(pixels).Flatten(2, -1).Transpose(1, 2).Add(e.positions(pixels))
	})
}

// check panics for images that the model does not accept.
func (e *VisionEmbeddings) check(shape []int64) {
	c, wrong := e.config, ""
	switch {
	case len(shape) != 4 || shape[1] != c.NumChannels:
		wrong = fmt.Sprintf("the pixels are %v; want [B, %d, height, width]", shape, c.NumChannels)
	case !e.interpolate && (shape[2] != c.ImageSize || shape[3] != c.ImageSize):
		wrong = fmt.Sprintf("the images have %dx%d pixels; the model is for %dx%d (InterpolatePosEncoding takes others)",
			shape[2], shape[3], c.ImageSize, c.ImageSize)
	case shape[2] < c.PatchSize || shape[3] < c.PatchSize:
		wrong = fmt.Sprintf("the images have %dx%d pixels; want at least a patch, %dx%d", shape[2], shape[3], c.PatchSize,
			c.PatchSize)
	}
	if wrong != "" {
		panic(torch.Errorf("siglip.VisionModel.Forward", torch.ErrInvalid, "%s", wrong))
	}
}

// positions returns the position embeddings for images of the size of pixels.
func (e *VisionEmbeddings) positions(pixels torch.Tensor) torch.Tensor {
	height, width, c := pixels.Size(2), pixels.Size(3), e.config
	rows, columns := height/c.PatchSize, width/c.PatchSize
	if known := c.patches(); !e.interpolate || rows*columns == known && height == width {
		all := torch.TensorOptions{Device: pixels.Device()}.Arange(0, known, 1)
		return e.PositionEmbedding.Forward(all.Unsqueeze(0))
	}
	return transformer.InterpolatePositions(e.PositionEmbedding.Weight.Unsqueeze(0), 0, rows, columns,
		transformer.Interpolation{})
}

// Classifier is the head of SiglipForImageClassification.
type Classifier struct {
	Classifier *nn.Linear `module:"classifier"`

	std float64
}

func newClassifier(c Config, b transformer.Builder) *Classifier {
	return &Classifier{b.Linear(c.Vision.HiddenSize, c.Head.NumLabels),
		math.Pow(float64(c.Vision.HiddenSize), -0.5) * c.InitializerFactor}
}

// DrawWeights draws the weight: transformer.WeightDrawer.
func (h *Classifier) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	drawNormal(wanted, "classifier.weight", h.Classifier.Weight, h.std)
}

// Forward maps vectors of images, [B, hidden], to logits, [B, labels].
func (h *Classifier) Forward(hidden torch.Tensor) torch.Tensor { return h.Classifier.Forward(hidden) }
