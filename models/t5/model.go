package t5

import (
	"math"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is T5Model. It maps the token ids of two texts to hidden states of the second.
type Model struct {
	Shared  *nn.Embedding `module:"shared"` // token embedding, for both texts
	Encoder *Stack        `module:"encoder"`
	Decoder *Stack        `module:"decoder"`

	config Config
}

// Stack is T5Stack.
type Stack struct {
	nn.Mode
	EmbedTokens    *nn.Embedding        `module:"embed_tokens"` // Shared
	Block          []*Block             `module:"block"`
	FinalLayerNorm *transformer.RMSNorm `module:"final_layer_norm"`
	Dropout        *nn.Dropout          `module:"dropout"`

	checkpointing bool
}

// Block is T5Block: attention, then in a decoder attention to the encoder's text, then a
// feed-forward part.
type Block struct {
	Layer []any `module:"layer"` // the fields below

	SelfAttention *SelfAttention  `module:"-"`
	EncDec        *CrossAttention `module:"-"` // nil in an encoder
	FeedForward   *FeedForward    `module:"-"`
}

// SelfAttention is T5LayerSelfAttention: a normalisation, attention and the residual.
type SelfAttention struct {
	SelfAttention *Attention           `module:"SelfAttention"`
	LayerNorm     *transformer.RMSNorm `module:"layer_norm"`
	Dropout       *nn.Dropout          `module:"dropout"`
}

// CrossAttention is T5LayerCrossAttention: attention to the encoder's text.
type CrossAttention struct {
	EncDecAttention *Attention           `module:"EncDecAttention"`
	LayerNorm       *transformer.RMSNorm `module:"layer_norm"`
	Dropout         *nn.Dropout          `module:"dropout"`
}

// FeedForward is T5LayerFF.
type FeedForward struct {
	DenseReluDense *Dense               `module:"DenseReluDense"`
	LayerNorm      *transformer.RMSNorm `module:"layer_norm"`
	Dropout        *nn.Dropout          `module:"dropout"`
}

// Dense is T5DenseActDense, or with a gate T5DenseGatedActDense, in which WI is nil.
type Dense struct {
	WI      *nn.Linear  `module:"wi"`
	WI0     *nn.Linear  `module:"wi_0"` // the gate
	WI1     *nn.Linear  `module:"wi_1"`
	WO      *nn.Linear  `module:"wo"`
	Dropout *nn.Dropout `module:"dropout"`

	activation transformer.Activation
	config     *Config
}

func sqrt(n int64) float64 { return math.Sqrt(float64(n)) }

// newModel builds encoder and decoder; each draws its weights when it is created.
func newModel(c Config, b transformer.Builder) *Model {
	m := &Model{config: c, Shared: b.Embedding(c.VocabSize, c.HiddenSize, nil)}
	m.Encoder = newStack(c, b, c.NumLayers, false)
	m.Decoder = newStack(c, b, c.NumDecoderLayers, true)
	m.Encoder.EmbedTokens, m.Decoder.EmbedTokens = m.Shared, m.Shared
	return m
}

// initializerRange is the standard deviation with which transformers first draws layers, because
// T5Config does not have the setting.
const initializerRange = 0.02

// initWeights draws the embedding and the head's output layer in transformers' order: both, then
// the embedding again.
func (m *Model) initWeights(head any) {
	torch.NoGrad(func() {
		initialize.Normal(m.Shared.Weight, 0, initializerRange, nil)
		transformer.InitWeights(head, initializerRange, nil)
		initialize.Normal(m.Shared.Weight, 0, m.config.InitializerFactor, nil)
	})
}

func newStack(c Config, b transformer.Builder, layers int64, decoder bool) *Stack {
	s := &Stack{EmbedTokens: b.Embedding(c.VocabSize, c.HiddenSize, nil), Block: make([]*Block, layers)}
	for i := range s.Block {
		s.Block[i] = newBlock(c, b, decoder, i == 0)
	}
	s.FinalLayerNorm, s.Dropout = b.UnwidenedRMSNorm(c.HiddenSize, c.LayerNormEps), nn.NewDropout(*c.Dropout)
	if !b.Undrawn {
		transformer.InitWeights(s, initializerRange, nil)
		torch.NoGrad(func() {
			for _, n := range nn.Modules(s) {
				if norm, ok := n.Module.(*transformer.RMSNorm); ok {
					initialize.Constant(norm.Weight, c.InitializerFactor)
				}
			}
		})
	}
	return s
}

func newBlock(c Config, b transformer.Builder, decoder, first bool) *Block {
	norm := func() *transformer.RMSNorm { return b.UnwidenedRMSNorm(c.HiddenSize, c.LayerNormEps) }
	dropout := func() *nn.Dropout { return nn.NewDropout(*c.Dropout) }
	k := &Block{SelfAttention: &SelfAttention{newAttention(c, b, first), norm(), dropout()}}
	k.Layer = []any{k.SelfAttention}
	if decoder {
		k.EncDec = &CrossAttention{newAttention(c, b, false), norm(), dropout()}
		k.Layer = append(k.Layer, k.EncDec)
	}
	activation, gated, _ := c.activation()
	d := &Dense{activation: activation, config: &c, Dropout: dropout()}
	if gated {
		d.WI0, d.WI1 = b.LinearNoBias(c.HiddenSize, c.FeedForwardSize), b.LinearNoBias(c.HiddenSize, c.FeedForwardSize)
	} else {
		d.WI = b.LinearNoBias(c.HiddenSize, c.FeedForwardSize)
	}
	d.WO = b.LinearNoBias(c.FeedForwardSize, c.HiddenSize)
	k.FeedForward = &FeedForward{d, norm(), dropout()}
	k.Layer = append(k.Layer, k.FeedForward)
	return k
}

// DrawWeights draws the layers with standard deviations that depend on the sizes of their inputs.
func (d *Dense) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	draw := func(name string, l *nn.Linear, in int64) {
		if l != nil && wanted(name+".weight", l.Weight) {
			initialize.Normal(l.Weight, 0, d.config.InitializerFactor/sqrt(in), nil)
		}
	}
	draw("wi", d.WI, d.config.HiddenSize)
	draw("wi_0", d.WI0, d.config.HiddenSize)
	draw("wi_1", d.WI1, d.config.HiddenSize)
	draw("wo", d.WO, d.config.FeedForwardSize)
}

// Encode maps token ids, [B, L], to the hidden states that the decoder attends to, [B, L, hidden].
// The attention mask, [B, L], is 0 for padding; undefined means no padding.
func (m *Model) Encode(ids, mask torch.Tensor) torch.Tensor {
	return m.encode(ids, transformer.KeyMask(mask))
}

func (m *Model) encode(ids, keep torch.Tensor) torch.Tensor {
	return m.Encoder.forward(ids, m.config.Attention, scores{keep, m.Encoder.bias(0, ids.Size(1), ids.Size(1))}, memory{})
}

// Forward maps the token ids of a source text, [B, L], with an attention mask as in [Model.Encode],
// and of a target text, [B, T], to the hidden states of the target, [B, T, hidden]. Each token of
// the target attends to itself and to all tokens before it, including padding.
func (m *Model) Forward(ids, mask, decoderIDs torch.Tensor) torch.Tensor {
	keep := transformer.KeyMask(mask)
	length := decoderIDs.Size(1)
	n := torch.TensorOptions{Device: decoderIDs.Device()}.Arange(0, length, 1)
	self := scores{n.Unsqueeze(1).Ge(n).View(1, 1, length, length), m.Decoder.bias(0, length, length)}
	return m.Decoder.forward(decoderIDs, m.config.Attention, self, memory{m.encode(ids, keep), scores{keep: keep}})
}

// memory is what a decoder attends to: the encoder's hidden states, and where they are not padding.
// In an encoder it is empty.
type memory struct {
	hidden torch.Tensor
	scores scores
}

// forward runs the blocks on token ids.
func (s *Stack) forward(ids torch.Tensor, kind transformer.Attention, self scores, m memory) torch.Tensor {
	x := s.Dropout.Forward(s.EmbedTokens.Forward(ids))
	for _, b := range s.Block {
		run := func(x torch.Tensor, self scores, m memory) torch.Tensor {
			return torch.Return(func() torch.Tensor { return b.forward(x, kind, self, m, nil) })
		}
		if !s.checkpointing || !s.Training() {
			x = run(x, self, m)
			continue
		}
		x = torch.Checkpoint(func(in []torch.Tensor) []torch.Tensor {
			// Passing a view avoids that autocast casts a leaf once for query, key and value
			// together, which would sum their gradients in lower precision.
			return []torch.Tensor{run(in[0].View(in[0].Shape()...), scores{in[1], in[2]}, memory{in[3], scores{keep: in[4]}})}
		}, x, self.keep, self.bias, m.hidden, m.scores.keep)[0]
	}
	return s.Dropout.Forward(s.FinalLayerNorm.Forward(x))
}

func (b *Block) forward(x torch.Tensor, kind transformer.Attention, self scores, m memory,
	past *transformer.PairPast) torch.Tensor {
	l := b.SelfAttention
	normal, a := l.LayerNorm.Forward(x), l.SelfAttention
	x = x.Add(l.Dropout.Forward(a.forward(normal, kind, self, past.Own(normal, a.K, a.V))))
	if l := b.EncDec; l != nil {
		normal, a := l.LayerNorm.Forward(x), l.EncDecAttention
		x = x.Add(l.Dropout.Forward(a.forward(normal, kind, m.scores, past.Other(m.hidden, a.K, a.V))))
	}
	f := b.FeedForward
	return x.Add(f.Dropout.Forward(f.DenseReluDense.forward(f.LayerNorm.Forward(x))))
}

func (d *Dense) forward(x torch.Tensor) torch.Tensor {
	if d.WI != nil {
		x = d.activation(d.WI.Forward(x))
	} else {
		x = d.activation(d.WI0.Forward(x)).Mul(d.WI1.Forward(x))
	}
	return d.WO.Forward(d.Dropout.Forward(x))
}
