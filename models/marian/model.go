package marian

import (
	"github.com/gotrainer/gotrainer/models/bart"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is MarianModel. It maps the token ids of two texts to hidden states of the second.
type Model struct {
	Shared  *nn.Embedding `module:"shared"` // token embedding for both texts; nil: each has its own
	Encoder *Stack        `module:"encoder"`
	Decoder *Stack        `module:"decoder"`

	config Config
}

// Stack is MarianEncoder or MarianDecoder. Its layers are those of BART.
type Stack struct {
	nn.Mode
	EmbedTokens *nn.Embedding `module:"embed_tokens"` // Shared, if there is one
	Layers      []*bart.Layer `module:"layers"`
	Dropout     *nn.Dropout   `module:"dropout"`

	// Positions are the embeddings of positions, [positions, hidden]. They are computed, not trained
	// and not saved.
	Positions torch.Tensor `buffer:"positions,nonpersistent"`

	scale         float64 // factor of the token embeddings
	layerdrop     float64
	checkpointing bool
}

// newModel builds encoder and decoder; each draws its weights when it is created.
func newModel(c Config, b transformer.Builder) *Model {
	m := &Model{config: c}
	if *c.ShareEncoderDecoderEmbeddings {
		m.Shared = b.Embedding(c.VocabSize, c.HiddenSize, c.PadTokenID)
	}
	m.Encoder, m.Decoder = newStack(c, b, false), newStack(c, b, true)
	if m.Shared == nil {
		return m
	}
	if !b.Undrawn {
		transformer.InitWeights(m.Shared, c.InitStd, nil)
	}
	m.Encoder.EmbedTokens, m.Decoder.EmbedTokens = m.Shared, m.Shared
	return m
}

func newStack(c Config, b transformer.Builder, decoder bool) *Stack {
	words, layers, layerdrop := c.VocabSize, c.EncoderLayers, c.EncoderLayerdrop
	if decoder {
		words, layers, layerdrop = c.DecoderVocabSize, c.DecoderLayers, c.DecoderLayerdrop
	}
	s := &Stack{EmbedTokens: b.Embedding(words, c.HiddenSize, c.PadTokenID), Layers: make([]*bart.Layer, layers),
		Dropout: nn.NewDropout(*c.Dropout), scale: c.embeddingScale(), layerdrop: layerdrop}
	// transformers draws weights for the positions and then replaces them.
	var replaced *nn.Embedding
	if !b.Undrawn {
		replaced = b.Embedding(c.MaxPositions, c.HiddenSize, nil)
	}
	for i := range s.Layers {
		s.Layers[i] = bart.NewLayer(b, c.layer(decoder))
	}
	if !b.Undrawn {
		transformer.InitWeights(&struct {
			EmbedTokens    *nn.Embedding `module:"embed_tokens"`
			EmbedPositions *nn.Embedding `module:"embed_positions"`
			Layers         []*bart.Layer `module:"layers"`
		}{s.EmbedTokens, replaced, s.Layers}, c.InitStd, nil)
	}
	s.Positions = nn.Buffer(sinusoids(c.MaxPositions, c.HiddenSize).ToDType(s.EmbedTokens.Weight.DType()))
	return s
}

// layer describes the layers of the encoder or decoder.
func (c Config) layer(decoder bool) bart.LayerOptions {
	activation, _ := transformer.ActivationByName(c.ActivationFunction)
	o := bart.LayerOptions{HiddenSize: c.HiddenSize, Heads: c.EncoderAttentionHeads, FFNDim: c.EncoderFFNDim,
		Activation: activation, Dropout: *c.Dropout, AttentionDropout: c.AttentionDropout,
		ActivationDropout: c.ActivationDropout}
	if decoder {
		o.Heads, o.FFNDim, o.MemorySize = c.DecoderAttentionHeads, c.DecoderFFNDim, c.HiddenSize
	}
	return o
}

// keyMask is the mask that keeps padding from being attended to.
func (m *Model) keyMask(mask torch.Tensor) transformer.Mask {
	return transformer.Mask{Padding: m.config.Attention.Mask(transformer.KeyMask(mask),
		m.Encoder.EmbedTokens.Weight.DType())}
}

// Encode maps token ids, [B, L], to the hidden states that the decoder attends to, [B, L, hidden].
// The attention mask, [B, L], is 0 for padding; undefined means no padding.
func (m *Model) Encode(ids, mask torch.Tensor) torch.Tensor { return m.encode(ids, m.keyMask(mask)) }

func (m *Model) encode(ids torch.Tensor, mask transformer.Mask) torch.Tensor {
	return m.Encoder.run(m.config.Attention).Forward(m.Encoder.embed(ids, 0), mask, bart.Memory{})
}

// Forward maps the token ids of a source text, [B, L], with an attention mask as in [Model.Encode],
// and of a target text, [B, T], to the hidden states of the target, [B, T, hidden]. Each token of
// the target attends to itself and to all tokens before it, including padding.
func (m *Model) Forward(ids, mask, decoderIDs torch.Tensor) torch.Tensor {
	padding, kind := m.keyMask(mask), m.config.Attention
	source := bart.Memory{Hidden: m.encode(ids, padding), Mask: padding}
	x := m.Decoder.embed(decoderIDs, 0)
	self := transformer.CausalMask(torch.Tensor{}, x, kind)
	self.Causal = self.Causal && kind != transformer.Eager // which adds Padding, and keeps the dtype of its weights
	return m.Decoder.run(kind).Forward(x, self, source)
}

// Decode starts target texts of at most capacity tokens, for source texts that [Model.Encode] has
// mapped to hidden. next maps the next token of each text, [B, 1], to its hidden state, [B, 1,
// hidden]. It and the cached keys and values live in the scope in which Decode was called.
func (m *Model) Decode(hidden, mask torch.Tensor, capacity int64) (next func(ids torch.Tensor) torch.Tensor,
	tokens *transformer.Past) {
	source := bart.Memory{Hidden: hidden, Mask: m.keyMask(mask)}
	return m.Decoder.run(m.config.Attention).Continue(source, capacity, m.Decoder.embed)
}

// embed returns the embeddings of tokens, [B, L], the first of which have the given position.
func (s *Stack) embed(ids torch.Tensor, first int64) torch.Tensor {
	x := s.EmbedTokens.Forward(ids)
	if s.scale != 1 {
		x = x.MulScalar(s.scale)
	}
	return s.Dropout.Forward(x.Add(s.Positions.Narrow(0, first, ids.Size(1))))
}

// Layerdrop is the probability with which a layer is left out in training: engine.LayerDropper.
func (s *Stack) Layerdrop() float64 { return s.layerdrop }

func (s *Stack) run(kind transformer.Attention) bart.Run {
	return bart.Run{Layers: s.Layers, Attention: kind, Layerdrop: s.layerdrop, Training: s.Training(),
		Checkpointing: s.checkpointing}
}
