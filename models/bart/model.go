package bart

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is BartModel and MBartModel. It maps the token ids of two texts to hidden states of the
// second.
type Model struct {
	Shared  *nn.Embedding `module:"shared"` // token embedding, for both texts
	Encoder *Stack        `module:"encoder"`
	Decoder *Stack        `module:"decoder"`

	config Config
}

// Stack is BartEncoder or BartDecoder, or that of MBart.
type Stack struct {
	nn.Mode
	EmbedTokens        *nn.Embedding `module:"embed_tokens"`    // Shared
	EmbedPositions     *nn.Embedding `module:"embed_positions"` // of which the first positionOffset are not used
	Layers             []*Layer      `module:"layers"`
	LayerNormEmbedding *nn.LayerNorm `module:"layernorm_embedding"`
	LayerNorm          *nn.LayerNorm `module:"layer_norm"` // only in mBART
	Dropout            *nn.Dropout   `module:"dropout"`

	scale         float64 // factor of the token embeddings
	layerdrop     float64
	decoder       bool
	checkpointing bool
}

// positionOffset is how many rows of the position embeddings come before that of the first
// position.
const positionOffset = 2

// layerNormEps is PyTorch's default, which no config changes.
const layerNormEps = 1e-5

// newModel builds encoder and decoder; each draws its weights when it is created.
func newModel(c Config, b transformer.Builder) *Model {
	m := &Model{config: c, Shared: b.Embedding(c.VocabSize, c.HiddenSize, c.PadTokenID)}
	m.Encoder, m.Decoder = newStack(c, b, false), newStack(c, b, true)
	if !b.Undrawn {
		transformer.InitWeights(m.Shared, c.InitStd, nil)
	}
	m.Encoder.EmbedTokens, m.Decoder.EmbedTokens = m.Shared, m.Shared
	return m
}

func newStack(c Config, b transformer.Builder, decoder bool) *Stack {
	layers, layerdrop := c.EncoderLayers, c.EncoderLayerdrop
	if decoder {
		layers, layerdrop = c.DecoderLayers, c.DecoderLayerdrop
	}
	s := &Stack{EmbedTokens: b.Embedding(c.VocabSize, c.HiddenSize, c.PadTokenID),
		EmbedPositions: b.Embedding(c.MaxPositions+positionOffset, c.HiddenSize, nil), Layers: make([]*Layer, layers),
		LayerNormEmbedding: b.LayerNorm(c.HiddenSize, layerNormEps), Dropout: nn.NewDropout(*c.Dropout),
		scale: c.embeddingScale(), layerdrop: layerdrop, decoder: decoder}
	for i := range s.Layers {
		s.Layers[i] = NewLayer(b, c.layer(decoder))
	}
	if c.normalizesBefore() {
		s.LayerNorm = b.LayerNorm(c.HiddenSize, layerNormEps)
	}
	if !b.Undrawn {
		transformer.InitWeights(s, c.InitStd, nil)
	}
	return s
}

// normalizesBefore reports whether the parts of a layer normalize their input instead of their
// output.
func (c Config) normalizesBefore() bool { return c.Type == "mbart" }

// layer describes the layers of the encoder or decoder.
func (c Config) layer(decoder bool) LayerOptions {
	activation, _ := transformer.ActivationByName(c.ActivationFunction)
	o := LayerOptions{HiddenSize: c.HiddenSize, Heads: c.EncoderAttentionHeads, FFNDim: c.EncoderFFNDim,
		Activation: activation, Dropout: *c.Dropout, AttentionDropout: c.AttentionDropout,
		ActivationDropout: c.ActivationDropout, NormalizesBefore: c.normalizesBefore()}
	if decoder {
		o.Heads, o.FFNDim, o.MemorySize = c.DecoderAttentionHeads, c.DecoderFFNDim, c.HiddenSize
	}
	return o
}

// keyMask is the mask that keeps padding from being attended to.
func (m *Model) keyMask(mask torch.Tensor) transformer.Mask {
	return transformer.Mask{Padding: m.config.Attention.Mask(transformer.KeyMask(mask), m.Shared.Weight.DType())}
}

// Encode maps token ids, [B, L], to the hidden states that the decoder attends to, [B, L, hidden].
// The attention mask, [B, L], is 0 for padding; undefined means no padding.
func (m *Model) Encode(ids, mask torch.Tensor) torch.Tensor { return m.encode(ids, m.keyMask(mask)) }

func (m *Model) encode(ids torch.Tensor, mask transformer.Mask) torch.Tensor {
	return m.Encoder.forward(m.Encoder.embed(ids, 0), m.config.Attention, mask, Memory{})
}

// Forward maps the token ids of a source text, [B, L], with an attention mask as in [Model.Encode],
// and of a target text, [B, T], to the hidden states of the target, [B, T, hidden]. Each token of
// the target attends to itself and to all tokens before it, including padding.
func (m *Model) Forward(ids, mask, decoderIDs torch.Tensor) torch.Tensor {
	padding, kind := m.keyMask(mask), m.config.Attention
	source := Memory{m.encode(ids, padding), padding}
	x := m.Decoder.embed(decoderIDs, 0)
	self := transformer.CausalMask(torch.Tensor{}, x, kind)
	self.Causal = self.Causal && kind != transformer.Eager // which adds Padding, and keeps the dtype of its weights
	return m.Decoder.forward(x, kind, self, source)
}

// embed returns the embeddings of tokens, [B, L], the first of which have the given position.
func (s *Stack) embed(ids torch.Tensor, first int64) torch.Tensor {
	x := s.EmbedTokens.Forward(ids)
	if s.scale != 1 {
		x = x.MulScalar(s.scale)
	}
	shape := ids.Shape()
	positions := torch.TensorOptions{DType: torch.Int64, Device: ids.Device()}.Arange(first+positionOffset,
		first+positionOffset+shape[1], 1).Unsqueeze(0)
	if !s.decoder { // where gradients are summed depends on the shape
		positions = positions.Expand(shape...)
	}
	x = x.Add(s.EmbedPositions.Forward(positions))
	return s.Dropout.Forward(s.LayerNormEmbedding.Forward(x))
}

// Layerdrop is the probability with which a layer is left out in training: engine.LayerDropper.
func (s *Stack) Layerdrop() float64 { return s.layerdrop }

// forward runs the layers on embeddings, [B, L, hidden].
func (s *Stack) forward(x torch.Tensor, kind transformer.Attention, self transformer.Mask, m Memory) torch.Tensor {
	return s.finish(s.run(kind).Forward(x, self, m))
}

func (s *Stack) run(kind transformer.Attention) Run {
	return Run{Layers: s.Layers, Attention: kind, Layerdrop: s.layerdrop, Training: s.Training(),
		Checkpointing: s.checkpointing}
}

// finish applies the last normalization, if there is one.
func (s *Stack) finish(x torch.Tensor) torch.Tensor {
	if s.LayerNorm == nil {
		return x
	}
	return s.LayerNorm.Forward(x)
}
