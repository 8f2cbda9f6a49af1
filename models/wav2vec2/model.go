package wav2vec2

import (
	"slices"

	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/specaugment"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is Wav2Vec2Model or HubertModel: samples of sound in, hidden states of its frames out.
type Model struct {
	nn.Mode
	// MaskedSpecEmbed, [hidden], takes the place of masked frames; undefined: none are ever masked.
	MaskedSpecEmbed   torch.Tensor       `param:"masked_spec_embed"`
	FeatureExtractor  *FeatureEncoder    `module:"feature_extractor"`
	FeatureProjection *FeatureProjection `module:"feature_projection"`
	Encoder           *Encoder           `module:"encoder"`

	config Config
	limits inputs.WaveformLimits
	masks  *torch.Generator // nil: none are drawn
}

// maskedSpecEmbed is the name of a parameter that older files do not have.
const maskedSpecEmbed = "masked_spec_embed"

func newModel(c Config, b transformer.Builder) *Model {
	m := &Model{config: c, limits: inputs.WaveformLimits{Convolutions: c.convolutions()},
		FeatureExtractor: newFeatureEncoder(c, b), FeatureProjection: newFeatureProjection(c, b)}
	if *c.MaskTimeProb > 0 || *c.MaskFeatureProb > 0 {
		m.MaskedSpecEmbed = nn.Parameter(torch.TensorOptions{DType: b.DType}.Empty(c.HiddenSize))
		if !b.Undrawn {
			initialize.Uniform(m.MaskedSpecEmbed, 0, 1, nil)
		}
		m.masks = specaugment.Generator(c.SpecAugment)
	}
	m.Encoder = newEncoder(c, b)
	if !b.Undrawn {
		m.initWeights()
	}
	return m
}

// initWeights draws all weights as transformers' _init_weights does: except in HuBERT,
// MaskedSpecEmbed stays as it was drawn first.
func (m *Model) initWeights() {
	if m.config.HuBERT {
		transformer.InitWeights(m, m.config.InitializerRange, nil)
		return
	}
	for _, part := range nn.Children(m) {
		transformer.InitWeights(part.Module, m.config.InitializerRange, nil)
	}
}

// DrawWeights draws MaskedSpecEmbed. transformers 5.17 leaves it as it is in memory if a file of a
// Wav2Vec2 lacks it.
func (m *Model) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	if wanted(maskedSpecEmbed, m.MaskedSpecEmbed) {
		initialize.Uniform(m.MaskedSpecEmbed, 0, 1, nil)
	}
}

func (m *Model) setGradientCheckpointing(on bool) {
	m.FeatureExtractor.checkpointing, m.Encoder.checkpointing = on, on
}

// Forward maps the samples of sound, [B, samples], to hidden states, [B, frames, hidden]. lengths
// are the samples of each row that are no padding, which is not attended to; nil means that the
// model takes all for sound. In training, Forward draws the masks of SpecAugment.
func (m *Model) Forward(values torch.Tensor, lengths []int64) (h transformer.Heard) {
	shape := values.Shape()
	m.check(shape, lengths)
	features := m.FeatureExtractor.Forward(values.ToDType(m.FeatureProjection.Projection.Weight.DType()))
	x := m.FeatureProjection.Forward(features.Transpose(1, 2))
	frames := x.Size(1)
	var counts []int64
	for _, n := range lengths {
		counts = append(counts, m.limits.Frames(n))
	}
	if m.masks != nil && m.Training() {
		if m.config.HuBERT { // it masks padding as well
			x = m.specAugment(x, nil)
		} else {
			x = m.specAugment(x, counts)
		}
	}
	var attended torch.Tensor
	if counts != nil {
		h.Counts = torch.From(counts, shape[0], 1).ToDevice(values.Device())
		kept := torch.TensorOptions{Device: values.Device()}.Arange(0, frames, 1).Unsqueeze(0).Lt(h.Counts)
		h.Padding = kept.LogicalNot()
		if slices.Min(counts) < frames {
			attended = kept
		}
	}
	h.Hidden, h.Layers = m.Encoder.forward(x, h.Padding, attended)
	if !m.config.UseWeightedLayerSum {
		h.Layers = nil
	}
	return h
}

// check panics for sound that the model does not take.
func (m *Model) check(shape, lengths []int64) {
	const op = "wav2vec2.Model.Forward"
	if len(shape) != 2 || m.limits.Frames(shape[1]) < 1 {
		panic(torch.Errorf(op, torch.ErrInvalid, "the samples have the shape %v; want [B, samples], of which there are at "+
			"least %d", shape, m.limits.Shortest()))
	}
	if lengths == nil {
		return
	}
	if int64(len(lengths)) != shape[0] || slices.Max(lengths) > shape[1] || slices.Min(lengths) < m.limits.Shortest() {
		panic(torch.Errorf(op, torch.ErrInvalid, "the lengths are %v; want one for each of the %d rows, from %d to %d",
			lengths, shape[0], m.limits.Shortest(), shape[1]))
	}
}
