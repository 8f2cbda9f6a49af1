package llava

import (
	"strings"

	"github.com/gotrainer/gotrainer/models/clip"
	"github.com/gotrainer/gotrainer/models/llama"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is LlavaForConditionalGeneration: texts and images in, hidden states of the texts out. Its
// modules have the names that they have in files.
type Model struct {
	VisionTower         *clip.VisionModel `module:"vision_tower"`
	MultiModalProjector *Projector        `module:"multi_modal_projector"`
	LanguageModel       *LanguageModel    `module:"language_model"`

	config Config
}

// Projector is LlavaMultiModalProjector: it maps the features of the vision tower to the size of
// the language model's embeddings.
type Projector struct {
	Linear1 *nn.Linear `module:"linear_1"`
	Linear2 *nn.Linear `module:"linear_2"`

	activation transformer.Activation
}

// LanguageModel is the decoder with its output layer.
type LanguageModel struct {
	Model  *llama.Model `module:"model"`
	LMHead *nn.Linear   `module:"lm_head"`
}

// newModel builds the parts. As in transformers, the tower and the decoder draw their weights when
// they are created, the projector after both, and the output layer last.
func newModel(c Config, decoder transformer.Blueprint, b transformer.Builder) *Model {
	m := &Model{config: c, VisionTower: clip.NewVisionModel(c.Vision, c.Attention, b)}
	m.MultiModalProjector = newProjector(c, b)
	written := decoder.Build(b, false).Module.(*llama.Model) //nolint:forcetypeassert // it is llama's
	if !b.Undrawn {
		transformer.InitWeights(m.MultiModalProjector, c.std(), nil)
	}
	m.LanguageModel = &LanguageModel{Model: written, LMHead: b.LinearNoBias(decoder.HiddenSize, decoder.Limits.VocabSize)}
	if !b.Undrawn {
		transformer.InitWeights(m.LanguageModel.LMHead, c.std(), nil)
	}
	return m
}

func newProjector(c Config, b transformer.Builder) *Projector {
	activation, err := transformer.ActivationByName(c.ProjectorHiddenAct)
	if err != nil {
		panic(torch.Errorf("llava.Config", torch.ErrValue, "%v; resolve the config first", err))
	}
	size, bias := c.Text.HiddenSize, !c.NoProjectorBias
	return &Projector{Linear1: b.LinearWith(c.Vision.HiddenSize*int64(len(c.VisionFeatureLayers)), size, bias),
		Linear2: b.LinearWith(size, size, bias), activation: activation}
}

// Forward maps features of images, [N, tokens, vision], to [N, tokens, hidden].
func (p *Projector) Forward(x torch.Tensor) torch.Tensor {
	return p.Linear2.Forward(p.activation(p.Linear1.Forward(x)))
}

// drawMissing draws the weights with the given names.
func (m *Model) drawMissing(missing map[string]bool) {
	for _, part := range nn.Children(m) {
		own, std := map[string]bool{}, m.config.std()
		for name := range missing {
			if name, found := strings.CutPrefix(name, part.Name+"."); found {
				own[name] = true
			}
		}
		switch part.Module {
		case any(m.VisionTower):
			std = m.config.Vision.InitializerRange
		case any(m.LanguageModel):
			std = m.config.Text.InitializerRange
		}
		transformer.InitWeights(part.Module, std, own)
	}
}

// ImageFeatures maps the pixels of images, [N, channels, height, width], to what takes the places
// of their tokens in a text, [N, tokens, hidden]: get_image_features. It panics with [*torch.Error]
// if the images have another size than Config.Vision.ImageSize.
func (m *Model) ImageFeatures(pixels torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		seen := m.VisionTower.HiddenStates(pixels, m.config.VisionFeatureLayers...)
		for i, x := range seen {
			if m.config.VisionFeatureSelectStrategy == SelectDefault {
				seen[i] = x.Narrow(1, 1, x.Size(1)-1)
			}
		}
		selected := seen[0]
		if len(seen) > 1 {
			selected = torch.Cat(seen, -1)
		}
		return m.MultiModalProjector.Forward(selected)
	})
}

// Forward maps token ids, [B, L], to hidden states, [B, L, hidden]. The mask, [B, L], has 0 for
// padding; undefined means that there is none. features are those of the images of all texts in
// their order, [N, tokens, hidden], as [Model.ImageFeatures] returns them, and replace the
// embeddings of the image tokens; undefined means that there are no images. It panics with
// [*torch.Error] if the numbers of image tokens and of features differ.
func (m *Model) Forward(ids, mask, features torch.Tensor) torch.Tensor {
	return m.LanguageModel.Model.ForwardEmbeddings(m.embed(ids, features), mask)
}

// Decode maps the first tokens of texts, [B, L], to their hidden states, [B, L, hidden], and adds
// them to the past. Features are those of [Model.Forward]. For the tokens that follow, see
// [llama.Model.Decode].
func (m *Model) Decode(ids, features torch.Tensor, past *transformer.Past) torch.Tensor {
	return m.LanguageModel.Model.DecodeEmbeddings(m.embed(ids, features), past)
}

// embed maps token ids to embeddings, and puts features into the places of image tokens.
func (m *Model) embed(ids, features torch.Tensor) torch.Tensor {
	x := m.LanguageModel.Model.Embed(ids)
	if !features.Defined() {
		return x
	}
	return torch.Return(func() torch.Tensor {
		is := ids.EqScalar(float64(m.config.ImageTokenIndex))
		rows := features.Size(0) * features.Size(1)
		if tokens := count(is); tokens != rows && tokens >= 0 {
			panic(torch.Errorf("llava.Model.Forward", torch.ErrInvalid, "the texts have %d image tokens (id %d), and the %d "+
				"images have %d features; want as many", tokens, m.config.ImageTokenIndex, features.Size(0), rows))
		}
		return x.MaskedScatter(is.Unsqueeze(-1), features.ToDType(x.DType()))
	})
}

// count counts what is true, or returns -1 on a GPU, for which it would have to wait. There the
// operator refuses too few features, and tasks count before.
func count(is torch.Tensor) int64 {
	if is.Device().IsCUDA() {
		return -1
	}
	return int64(is.Sum(torch.DefaultDType).Item())
}

func (m *Model) setGradientCheckpointing(on bool) {
	m.VisionTower.Encoder.SetGradientCheckpointing(on)
	m.LanguageModel.Model.SetGradientCheckpointing(on)
}
