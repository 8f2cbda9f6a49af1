package trocr

import (
	"strings"

	"github.com/gotrainer/gotrainer/models/bart"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/models/vit"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is VisionEncoderDecoderModel: pixels and the tokens of a text in, hidden states of the text
// out.
type Model struct {
	Encoder *vit.Model `module:"encoder"`
	Decoder *CausalLM  `module:"decoder"`
	// EncToDecProj maps the encoder's hidden states to the size of the decoder's. It is nil if they
	// have that size, or if the decoder attends to them as they are.
	EncToDecProj *nn.Linear `module:"enc_to_dec_proj"`

	std float64 // of the encoder's initial weights
}

// CausalLM is TrOCRForCausalLM.
type CausalLM struct {
	Model            *Wrapper   `module:"model"`
	OutputProjection *nn.Linear `module:"output_projection"`
}

// Wrapper is TrOCRDecoderWrapper, which gives the names of its weights a part more.
type Wrapper struct {
	Decoder *Decoder `module:"decoder"`
}

// projectionStd is the standard deviation of the initial weights of EncToDecProj, which no config
// changes.
const projectionStd = 0.02

// newModel builds the parts; each draws its weights when it is created.
func newModel(c Config, encoder transformer.Blueprint, b transformer.Builder) *Model {
	withPooler := b
	withPooler.Alone = true
	seen := encoder.Build(withPooler, true).Module.(*vit.Model) //nolint:forcetypeassert // it is vit's
	m := &Model{Encoder: seen, std: encoder.InitializerRange}
	m.Decoder = &CausalLM{Model: &Wrapper{newDecoder(c, encoder.HiddenSize, b)},
		OutputProjection: b.LinearNoBias(c.HiddenSize, c.VocabSize)}
	if !b.Undrawn {
		transformer.InitWeights(m.Decoder.OutputProjection, c.InitStd, nil)
	}
	if encoder.HiddenSize != c.HiddenSize && c.CrossAttentionHiddenSize == 0 {
		m.EncToDecProj = b.Linear(encoder.HiddenSize, c.HiddenSize)
		if !b.Undrawn {
			transformer.InitWeights(m.EncToDecProj, projectionStd, nil)
		}
	}
	return m
}

// drawMissing draws the weights with the given names.
func (m *Model) drawMissing(missing map[string]bool) {
	stds := map[string]float64{"encoder": m.std, "decoder": m.Decoder.Model.Decoder.config.InitStd,
		"enc_to_dec_proj": projectionStd}
	for _, part := range nn.Children(m) {
		own := map[string]bool{}
		for name := range missing {
			if name, found := strings.CutPrefix(name, part.Name+"."); found {
				own[name] = true
			}
		}
		transformer.InitWeights(part.Module, stds[part.Name], own)
	}
}

// Encode maps the pixels of images, [B, channels, height, width], to the hidden states that the
// decoder attends to, [B, L, hidden]. It panics with [*torch.Error] if their size is not one that
// the encoder takes.
func (m *Model) Encode(pixels torch.Tensor) torch.Tensor {
	hidden := m.Encoder.Forward(pixels)
	if m.EncToDecProj != nil {
		hidden = m.EncToDecProj.Forward(hidden)
	}
	return hidden
}

// Forward maps pixels, as in [Model.Encode], and the token ids of the texts in them, [B, T], to the
// hidden states of the texts, [B, T, hidden]. Each token attends to itself and to all tokens before
// it, including padding.
func (m *Model) Forward(pixels, decoderIDs torch.Tensor) torch.Tensor {
	return m.Decoder.Model.Decoder.Forward(m.Encode(pixels), decoderIDs)
}

// Decode starts texts of at most capacity tokens, for images that [Model.Encode] has mapped to
// hidden. next maps the next token of each text, [B, 1], to its hidden state, [B, 1, hidden]. It and
// the cached keys and values live in the scope in which Decode was called.
func (m *Model) Decode(hidden, _ torch.Tensor, capacity int64) (next func(ids torch.Tensor) torch.Tensor,
	tokens *transformer.Past) {
	d := m.Decoder.Model.Decoder
	return d.run().Continue(bart.Memory{Hidden: hidden}, capacity, d.embed)
}

func (m *Model) setGradientCheckpointing(on bool) {
	m.Encoder.Encoder.SetGradientCheckpointing(on)
	m.Decoder.Model.Decoder.checkpointing = on
}
