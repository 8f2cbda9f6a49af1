package clip

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// VisionModel is CLIPVisionModel: pixels in, hidden states out. An image is cut into patches, each
// of which is a token of an encoder. A token before them stands for the whole image.
type VisionModel struct {
	Embeddings    *VisionEmbeddings `module:"embeddings"`
	PreLayerNorm  *nn.LayerNorm     `module:"pre_layrnorm"` // the name in files
	Encoder       *Encoder          `module:"encoder"`
	PostLayerNorm *nn.LayerNorm     `module:"post_layernorm"`

	config VisionConfig
}

// VisionEmbeddings is CLIPVisionEmbeddings: the token for the whole image, the patches, and their
// positions.
type VisionEmbeddings struct {
	ClassEmbedding    torch.Tensor  `param:"class_embedding"` // [hidden]
	PatchEmbedding    *nn.Conv2d    `module:"patch_embedding"`
	PositionEmbedding *nn.Embedding `module:"position_embedding"`

	config      VisionConfig
	interpolate bool
}

// NewVisionModel makes the encoder of images by itself: CLIPVisionModel. c is a resolved config.
func NewVisionModel(c VisionConfig, a transformer.Attention, b transformer.Builder) *VisionModel {
	return newVisionModel(c, a, b)
}

func newVisionModel(c VisionConfig, a transformer.Attention, b transformer.Builder) *VisionModel {
	factory := torch.TensorOptions{DType: b.DType}
	class := factory.Randn
	if b.Undrawn {
		class = factory.Empty
	}
	m := &VisionModel{config: c, Embeddings: &VisionEmbeddings{config: c,
		ClassEmbedding: nn.Parameter(class(c.HiddenSize))}}
	patch := nn.Dims{c.PatchSize, c.PatchSize}
	m.Embeddings.PatchEmbedding = b.Conv2d(c.NumChannels, c.HiddenSize, patch, nn.ConvOptions{Stride: patch, NoBias: true})
	m.Embeddings.PositionEmbedding = b.Embedding(1+c.side()*c.side(), c.HiddenSize, nil)
	m.PreLayerNorm = b.LayerNorm(c.HiddenSize, c.LayerNormEps)
	m.Encoder = newEncoder(c.Layers, a, b)
	m.PostLayerNorm = b.LayerNorm(c.HiddenSize, c.LayerNormEps)
	if !b.Undrawn {
		transformer.InitWeights(m, c.InitializerRange, nil)
	}
	return m
}

// side is the number of patches in a row, and in a column, of an image.
func (c VisionConfig) side() int64 { return c.ImageSize / c.PatchSize }

// DrawWeights draws all embeddings: transformer.WeightDrawer.
func (e *VisionEmbeddings) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	c := e.config
	std := c.InitializerRange * c.InitializerFactor
	draw(wanted, weight{"class_embedding", e.ClassEmbedding, scaled(c.HiddenSize, c.InitializerFactor)},
		weight{"patch_embedding.weight", e.PatchEmbedding.Weight, std},
		weight{"position_embedding.weight", e.PositionEmbedding.Weight, std})
}

// Forward maps the pixels of images, [B, channels, height, width], to the hidden states of their
// tokens, [B, 1 + patches, hidden]; the first token stands for the image. Pixels are converted to
// the dtype of the weights. Forward panics with [*torch.Error] if the images do not have the size
// VisionConfig.ImageSize, unless positions are interpolated.
func (m *VisionModel) Forward(pixels torch.Tensor) torch.Tensor {
	return m.Encoder.Forward(m.embed(pixels), transformer.Mask{WideSoftmax: true})
}

// HiddenStates maps pixels, as in [VisionModel.Forward], to hidden states by their numbers: 0 is
// the input of the first layer, 1 its output, and -1 that of the last layer. It is hidden_states of
// transformers. Layers behind all of these are not run, unless they would draw random numbers.
func (m *VisionModel) HiddenStates(pixels torch.Tensor, numbers ...int64) []torch.Tensor {
	layers, deepest := int64(len(m.Encoder.Layers)), int64(0)
	at := make([]int64, len(numbers))
	for i, n := range numbers {
		if n < -layers-1 || n > layers {
			panic(torch.Errorf("clip.VisionModel.HiddenStates", torch.ErrInvalid, "there is no hidden state %d; want %d to %d",
				n, -layers-1, layers))
		}
		at[i] = (n + layers + 1) % (layers + 1)
		deepest = max(deepest, at[i])
	}
	if m.Encoder.Training() && m.config.AttentionDropout > 0 {
		deepest = layers
	}
	return torch.ReturnAll(func() (wanted []torch.Tensor) {
		states := m.Encoder.HiddenStates(int(deepest), m.embed(pixels), transformer.Mask{WideSoftmax: true})
		for _, n := range at {
			wanted = append(wanted, states[n])
		}
		return wanted
	})
}

// embed maps pixels to the input of the first layer, [B, 1 + patches, hidden].
func (m *VisionModel) embed(pixels torch.Tensor) torch.Tensor {
	return m.PreLayerNorm.Forward(m.Embeddings.Forward(pixels.ToDType(m.PreLayerNorm.Weight.DType())))
}

// InterpolatePosEncoding makes Forward take images of any size. The positions of patches are
// interpolated between those that the model knows: interpolate_pos_encoding of transformers.
func (m *VisionModel) InterpolatePosEncoding(on bool) error {
	m.Embeddings.interpolate = on
	return nil
}

// pool returns the vectors that stand for images, [B, hidden], out of the hidden states of all
// tokens.
func (m *VisionModel) pool(hidden torch.Tensor) torch.Tensor {
	return m.PostLayerNorm.Forward(hidden.Select(1, 0))
}

// Forward maps pixels, [B, channels, height, width], to [B, 1 + patches, hidden].
func (e *VisionEmbeddings) Forward(pixels torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		e.check(pixels.Shape())
		patches := e.PatchEmbedding.Forward(pixels).Flatten(2, -1).Transpose(1, 2)
		class := e.ClassEmbedding.Expand(pixels.Size(0), 1, -1)
		return torch.Cat([]torch.Tensor{class, patches}, 1).Add(e.positions(pixels))
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
		panic(torch.Errorf("clip.VisionModel.Forward", torch.ErrInvalid, "%s", wrong))
	}
}

// positions returns the position embeddings for images of the size of pixels.
func (e *VisionEmbeddings) positions(pixels torch.Tensor) torch.Tensor {
	height, width, c := pixels.Size(2), pixels.Size(3), e.config
	rows, columns := height/c.PatchSize, width/c.PatchSize
	if known := c.side() * c.side(); !e.interpolate || rows*columns == known && height == width {
		all := torch.TensorOptions{Device: pixels.Device()}.Arange(0, known+1, 1)
		return e.PositionEmbedding.Forward(all.Unsqueeze(0))
	}
	return transformer.InterpolatePositions(e.PositionEmbedding.Weight.Unsqueeze(0), 1, rows, columns,
		transformer.Interpolation{})
}

// Classifier is the head of CLIPForImageClassification.
type Classifier struct {
	Classifier *nn.Linear `module:"classifier"`

	std float64
}

func newClassifier(c Config, b transformer.Builder) *Classifier {
	return &Classifier{b.Linear(c.Vision.HiddenSize, c.Head.NumLabels), scaled(c.Vision.HiddenSize, c.InitializerFactor)}
}

// DrawWeights draws the weight: transformer.WeightDrawer.
func (h *Classifier) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	draw(wanted, weight{"classifier.weight", h.Classifier.Weight, h.std})
}

// Forward maps vectors of images, [B, hidden], to logits, [B, labels].
func (h *Classifier) Forward(hidden torch.Tensor) torch.Tensor { return h.Classifier.Forward(hidden) }
