package clip

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is CLIPModel: both encoders, and the projections of their vectors into one space.
type Model struct {
	LogitScale       torch.Tensor `param:"logit_scale"` // logarithm of the factor of similarities, []
	TextModel        *TextModel   `module:"text_model"`
	VisionModel      *VisionModel `module:"vision_model"`
	VisualProjection *nn.Linear   `module:"visual_projection"`
	TextProjection   *nn.Linear   `module:"text_projection"`

	factor float64
}

func newModel(c Config, b transformer.Builder) *Model {
	m := &Model{factor: c.InitializerFactor,
		LogitScale: nn.Parameter(torch.TensorOptions{DType: b.DType}.Full(*c.LogitScale))}
	m.TextModel = newTextModel(c.Text, c.Attention, b)
	m.VisionModel = newVisionModel(c.Vision, c.Attention, b)
	m.VisualProjection = b.LinearNoBias(c.Vision.HiddenSize, c.ProjectionDim)
	m.TextProjection = b.LinearNoBias(c.Text.HiddenSize, c.ProjectionDim)
	if !b.Undrawn {
		for _, projection := range []*nn.Linear{m.VisualProjection, m.TextProjection} {
			transformer.InitWeights(projection, c.InitializerFactor, nil)
		}
		torch.NoGrad(func() { m.DrawWeights(0, func(string, torch.Tensor) bool { return true }) })
	}
	return m
}

// DrawWeights draws the projections: transformer.WeightDrawer.
func (m *Model) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	draw(wanted,
		weight{"text_projection.weight", m.TextProjection.Weight, scaled(m.TextModel.config.HiddenSize, m.factor)},
		weight{"visual_projection.weight", m.VisualProjection.Weight, scaled(m.VisionModel.config.HiddenSize, m.factor)})
}

// TextFeatures maps token ids, [B, L], to the vectors of texts, [B, projection]: get_text_features.
// The attention mask, [B, L], has 0 for padding; undefined means that there is none.
func (m *Model) TextFeatures(ids, mask torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		return m.TextProjection.Forward(m.TextModel.pool(m.TextModel.Forward(ids, mask), ids))
	})
}

// ImageFeatures maps the pixels of images, [B, channels, height, width], to their vectors, [B,
// projection]: get_image_features.
func (m *Model) ImageFeatures(pixels torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		return m.VisualProjection.Forward(m.VisionModel.pool(m.VisionModel.Forward(pixels)))
	})
}

// Similarities compares the vectors of texts, [T, projection], with those of images, [I,
// projection]: logits_per_text, [T, I].
func (m *Model) Similarities(texts, images torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		images, texts = normalized(images), normalized(texts)
		return texts.MatMul(images.T()).Mul(m.LogitScale.Exp())
	})
}

// normalized divides vectors by their lengths, computed as transformers does.
func normalized(x torch.Tensor) torch.Tensor {
	return x.Div(x.PowScalar(2).SumDim([]int64{-1}, true, torch.DefaultDType).PowScalar(0.5))
}
