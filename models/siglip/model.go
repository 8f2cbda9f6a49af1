package siglip

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is SiglipModel: both encoders, and what makes logits of the products of their vectors.
type Model struct {
	LogitScale  torch.Tensor `param:"logit_scale"` // logarithm of the factor of similarities, [1]
	LogitBias   torch.Tensor `param:"logit_bias"`  // what is added to them, [1]
	TextModel   *TextModel   `module:"text_model"`
	VisionModel *VisionModel `module:"vision_model"`
}

// initializerRange is the standard deviation of a first draw, which later ones replace.
const initializerRange = 0.02

func newModel(c Config, b transformer.Builder) *Model {
	m := &Model{TextModel: newTextModel(c.Text, c.Attention, b), VisionModel: newVisionModel(c.Vision, c.Attention, b)}
	factory := torch.TensorOptions{DType: b.DType}
	values := factory.Randn
	if b.Undrawn {
		values = factory.Empty
	}
	m.LogitScale, m.LogitBias = nn.Parameter(values(1)), nn.Parameter(values(1))
	if !b.Undrawn {
		torch.NoGrad(func() { m.DrawWeights(0, func(string, torch.Tensor) bool { return true }) })
	}
	return m
}

// DrawWeights sets the factor to 1 and what is added to 0: transformer.WeightDrawer.
func (m *Model) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	for _, p := range []torch.Named{{Name: "logit_scale", Tensor: m.LogitScale},
		{Name: "logit_bias", Tensor: m.LogitBias}} {
		if wanted(p.Name, p.Tensor) {
			initialize.Zeros(p.Tensor)
		}
	}
}

// TextFeatures maps token ids, [B, L], to the vectors of texts, [B, projection]: get_text_features.
// See [TextModel.Forward].
func (m *Model) TextFeatures(ids, mask torch.Tensor) torch.Tensor {
	return m.TextModel.Forward(ids, mask)
}

// ImageFeatures maps the pixels of images, [B, channels, height, width], to their vectors, [B,
// hidden]: get_image_features. It panics with [*torch.Error] if the model has no head of images.
func (m *Model) ImageFeatures(pixels torch.Tensor) torch.Tensor {
	if m.VisionModel.Head == nil {
		panic(torch.Errorf("siglip.Model.ImageFeatures", torch.ErrInvalid, "vision_use_head is false, so there are no "+
			"vectors of images; want a model with that head"))
	}
	return torch.Return(func() torch.Tensor { return m.VisionModel.Head.Forward(m.VisionModel.Forward(pixels)) })
}

// Similarities compares the vectors of texts, [T, size], with those of images, [I, size]:
// logits_per_text, [T, I].
func (m *Model) Similarities(texts, images torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		images, texts = normalized(images), normalized(texts)
		return texts.MatMul(images.T()).Mul(m.LogitScale.Exp()).Add(m.LogitBias)
	})
}

// normalized divides vectors by their lengths, computed as transformers does.
func normalized(x torch.Tensor) torch.Tensor {
	return x.Div(torch.Call("aten::linalg_vector_norm", x, 2, []int64{-1}, true, nil)[0])
}
