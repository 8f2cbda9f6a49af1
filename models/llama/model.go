package llama

import (
	"math"

	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is LlamaModel: ids in, hidden states out.
type Model struct {
	transformer.Decoder[*Layer] `module:"-"` // runs Layers

	EmbedTokens *nn.Embedding        `module:"embed_tokens"`
	Layers      []*Layer             `module:"layers"`
	Norm        *transformer.RMSNorm `module:"norm"`
	RotaryEmb   *RotaryEmbedding     `module:"rotary_emb"`

	config Config
	scale  float64 // factor of the embeddings, as in Gemma and Granite; otherwise 1
}

// Layer is LlamaDecoderLayer: attention and a feed-forward part, each preceded by a normalisation
// and followed by the residual. Gemma2DecoderLayer also has a normalisation after each part, and
// Olmo2DecoderLayer has only those. In these two, PostAttentionLayerNorm is the one after
// attention; otherwise it is the one before the feed-forward part.
type Layer struct {
	SelfAttn                 *Attention           `module:"self_attn"`
	MLP                      FeedForward          `module:"mlp"`
	InputLayerNorm           *transformer.RMSNorm `module:"input_layernorm"` // nil for OLMo 2
	PostAttentionLayerNorm   *transformer.RMSNorm `module:"post_attention_layernorm"`
	PreFeedforwardLayerNorm  *transformer.RMSNorm `module:"pre_feedforward_layernorm"`  // nil except for Gemma 2 and 3
	PostFeedforwardLayerNorm *transformer.RMSNorm `module:"post_feedforward_layernorm"` // nil for Llama
	ResidDropout             *nn.Dropout          `module:"resid_dropout"`              // for the output of both parts

	multiplier float64 // factor of the output of both parts
}

func newModel(c Config, b transformer.Builder, activation transformer.Activation) *Model {
	m := &Model{
		EmbedTokens: b.Embedding(c.VocabSize, c.HiddenSize, c.padding()),
		Norm:        c.norm(b, c.HiddenSize),
		RotaryEmb:   newRotaryEmbedding(c),
		config:      c,
		scale:       c.EmbeddingMultiplier,
	}
	if families[c.Type].onePlusNorms {
		m.scale = math.Sqrt(float64(c.HiddenSize))
	}
	layer := int64(-1)
	m.Decoder = transformer.NewDecoder(c.NumLayers, c.NumKeyValueHeads*c.HeadDim,
		func() *Layer { layer++; return newLayer(c, b, activation, layer) })
	m.Layers = m.Layer
	if !b.Undrawn {
		transformer.InitWeights(m, c.InitializerRange, nil)
	}
	return m
}

func newLayer(c Config, b transformer.Builder, activation transformer.Activation, number int64) *Layer {
	l := &Layer{
		SelfAttn:               newAttention(c, b),
		MLP:                    newFeedForward(c, b, activation, number),
		PostAttentionLayerNorm: c.norm(b, c.HiddenSize),
		ResidDropout:           nn.NewDropout(c.ResidualDropout),
		multiplier:             c.ResidualMultiplier,
	}
	f := families[c.Type]
	if !f.postNorms {
		l.InputLayerNorm = c.norm(b, c.HiddenSize)
	}
	if f.sandwich {
		l.PreFeedforwardLayerNorm = c.norm(b, c.HiddenSize)
	}
	if f.sandwich || f.postNorms {
		l.PostFeedforwardLayerNorm = c.norm(b, c.HiddenSize)
	}
	return l
}

// norm makes a norm over size features.
func (c Config) norm(b transformer.Builder, size int64) *transformer.RMSNorm {
	f := families[c.Type]
	if f.onePlusNorms {
		return b.OnePlusRMSNorm(size, c.RMSNormEps)
	}
	n := b.RMSNorm(size, c.RMSNormEps)
	n.Full = f.castLast
	return n
}

// Forward maps token ids, [B, L], to hidden states, [B, L, hidden]. The attention mask, [B, L], is
// 0 for padding; undefined means no padding. Positions count from the left, including padding.
func (m *Model) Forward(ids, mask torch.Tensor) torch.Tensor {
	return m.forward(ids, mask, nil)
}

func (m *Model) forward(ids, mask torch.Tensor, router func(logits torch.Tensor)) torch.Tensor {
	return m.run(m.Embed(ids), mask, router)
}

// ForwardEmbeddings is [Model.Forward] for tokens that [Model.Embed] has mapped to x, [B, L,
// hidden], or for what stands in their places: inputs_embeds of transformers.
func (m *Model) ForwardEmbeddings(x, mask torch.Tensor) torch.Tensor { return m.run(x, mask, nil) }

func (m *Model) run(x, mask torch.Tensor, router func(logits torch.Tensor)) torch.Tensor {
	positions := torch.TensorOptions{Device: x.Device()}.Arange(0, x.Size(1), 1)
	masks := m.masks(x, []int64{x.Size(1)}, positions, m.windowMask(mask, x))
	return m.Norm.Forward(m.ForwardEach(x, func(layer int) transformer.Mask {
		one := masks(layer)
		one.Router = router
		return one
	}))
}

// ForwardPacked maps a packed batch to the hidden states of its tokens, [T, hidden].
func (m *Model) ForwardPacked(p *inputs.Packed) torch.Tensor {
	x := m.Embed(p.IDs.Unsqueeze(0))
	masks := m.masks(x, []int64{p.MaxLength()}, p.Positions, func(window int64) transformer.Mask {
		return transformer.Mask{Packed: p, Causal: !m.config.Bidirectional, Window: window}
	})
	return m.Norm.Forward(m.ForwardEach(x, masks)).SqueezeDim(0)
}

// Embed maps token ids, [B, L], to the input of the first layer, [B, L, hidden].
func (m *Model) Embed(ids torch.Tensor) torch.Tensor {
	x := m.EmbedTokens.Forward(ids)
	if m.scale == 1 {
		return x
	}
	scale := m.scale
	if families[m.config.Type].onePlusNorms { // transformers rounds the factor to the weight's dtype
		scale = torch.From([]float64{scale}).ToDType(m.EmbedTokens.Weight.DType()).Item()
	}
	return x.MulScalar(scale)
}

// windowMask returns the function that [Model.masks] takes, for texts with an attention mask.
func (m *Model) windowMask(mask, x torch.Tensor) func(window int64) transformer.Mask {
	return func(window int64) transformer.Mask {
		if c := m.config; c.Bidirectional {
			// transformers makes the masks of gemma3_text even where they are true everywhere
			return transformer.BidirectionalWindowMask(mask, x, window, !families[c.Type].halvesWindow, c.Attention)
		}
		return transformer.WindowMask(mask, x, window, m.config.Attention)
	}
}

// masks returns a function that gives each layer its mask, for hidden states x of the last tokens
// at the given positions. lengths are the lengths of the texts: one number for all, or one for
// each. maskOf makes the mask for a window, without positions; 0: there is no window.
func (m *Model) masks(x torch.Tensor, lengths []int64, positions torch.Tensor,
	maskOf func(window int64) transformer.Mask) func(layer int) transformer.Mask {
	dtype := x.DType()
	if families[m.config.Type].castLast {
		dtype = torch.Float32
	}
	made := map[string]transformer.Mask{}
	for _, kind := range m.config.LayerTypes {
		if _, done := made[kind]; done {
			continue
		}
		window := int64(0)
		if kind == SlidingAttention {
			window = m.config.window()
		}
		one := maskOf(window)
		one.WideSoftmax = true
		one.Rotary = m.RotaryEmb.at(lengths, x.Size(1), positions, kind == SlidingAttention, dtype)
		made[kind] = one
	}
	return func(layer int) transformer.Mask {
		one := made[m.config.LayerTypes[layer]]
		if of := m.config.NoRopeLayers; of != nil && of[layer] == 0 {
			one.Rotary = transformer.Rotary{}
		}
		return one
	}
}

// Decode maps the next tokens of texts, [B, L], to their hidden states, [B, L, hidden], and adds
// them to the past. L is 1 unless the past is empty.
func (m *Model) Decode(ids torch.Tensor, past *transformer.Past) torch.Tensor {
	return m.DecodeEmbeddings(m.Embed(ids), past)
}

// DecodeEmbeddings is [Model.Decode] for what [Model.ForwardEmbeddings] takes.
func (m *Model) DecodeEmbeddings(x torch.Tensor, past *transformer.Past) torch.Tensor {
	n := x.Size(1)
	mask, positions := past.Next(n)
	return m.Norm.Forward(m.ContinueEach(x, m.masks(x, past.Lengths(n), positions, m.windowMask(mask, x)), past))
}

// Rereads is Rereads of transformer.Backbone.
func (m *Model) Rereads() int64 { return m.RotaryEmb.short }

// Forward maps hidden states, [B, L, hidden], to the next ones.
func (l *Layer) Forward(x torch.Tensor, mask transformer.Mask) torch.Tensor {
	router := mask.Router
	// ReturnAll frees what autograd does not need now, instead of at the end of the step.
	out := torch.ReturnAll(func() []torch.Tensor {
		out := make([]torch.Tensor, 1, 2)
		if router != nil {
			mask.Router = func(logits torch.Tensor) { out = append(out, logits) }
		}
		out[0] = l.Continue(x, mask, nil)
		return out
	})
	for _, logits := range out[1:] {
		router(logits)
	}
	return out[0]
}

// Continue is Forward for tokens that attend to what recall returns.
func (l *Layer) Continue(x torch.Tensor, mask transformer.Mask, recall transformer.Recall) torch.Tensor {
	made := l.SelfAttn.forward(normalised(x, l.InputLayerNorm), mask, recall)
	if l.PostFeedforwardLayerNorm == nil {
		x = l.add(x, made)
		return l.add(x, l.MLP.forward(l.PostAttentionLayerNorm.Forward(x), mask))
	}
	x = l.add(x, l.PostAttentionLayerNorm.Forward(made))
	return l.add(x, l.PostFeedforwardLayerNorm.Forward(l.MLP.forward(normalised(x, l.PreFeedforwardLayerNorm), mask)))
}

// normalised returns n(x), or x if there is no norm.
func normalised(x torch.Tensor, n *transformer.RMSNorm) torch.Tensor {
	if n == nil {
		return x
	}
	return n.Forward(x)
}

// add adds the output of attention or of the feed-forward part to the residual stream x.
func (l *Layer) add(x, made torch.Tensor) torch.Tensor {
	made = l.ResidDropout.Forward(made)
	if l.multiplier != 1 {
		made = made.MulScalar(l.multiplier)
	}
	return x.Add(made)
}
