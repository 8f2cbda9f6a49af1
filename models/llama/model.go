package llama

import (
	"math"

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
	scale  float64 // of embeddings: GemmaTextScaledWordEmbedding; 1: of the others
}

// RotaryEmbedding is LlamaRotaryEmbedding: how far a position turns queries and keys.
type RotaryEmbedding struct {
	InvFreq torch.Tensor `buffer:"inv_freq,nonpersistent"` // [HeadDim/2]
}

// Layer is LlamaDecoderLayer: attention and a feed-forward part, each behind a normalisation and
// followed by the residual.
type Layer struct {
	SelfAttn               *Attention           `module:"self_attn"`
	MLP                    *MLP                 `module:"mlp"`
	InputLayerNorm         *transformer.RMSNorm `module:"input_layernorm"`
	PostAttentionLayerNorm *transformer.RMSNorm `module:"post_attention_layernorm"`
}

// Attention is LlamaAttention, in which a token attends to those before it and to itself.
type Attention struct {
	nn.Mode
	QProj *nn.Linear `module:"q_proj"`
	KProj *nn.Linear `module:"k_proj"`
	VProj *nn.Linear `module:"v_proj"`
	OProj *nn.Linear `module:"o_proj"`

	heads   int64
	dropout float64
	kind    transformer.Attention
}

// MLP is LlamaMLP: what goes up is multiplied by a gate.
type MLP struct {
	GateProj *nn.Linear `module:"gate_proj"`
	UpProj   *nn.Linear `module:"up_proj"`
	DownProj *nn.Linear `module:"down_proj"`

	activation transformer.Activation
}

func newModel(c Config, b transformer.Builder, activation transformer.Activation) *Model {
	m := &Model{
		EmbedTokens: b.Embedding(c.VocabSize, c.HiddenSize, c.padding()),
		Norm:        c.norm(b),
		RotaryEmb:   &RotaryEmbedding{nn.Buffer(c.Rope.frequencies(c.HeadDim))},
		config:      c,
		scale:       1,
	}
	if c.Type == "gemma" {
		m.scale = math.Sqrt(float64(c.HiddenSize))
	}
	m.Decoder = transformer.NewDecoder(c.NumLayers, c.NumKeyValueHeads*c.HeadDim,
		func() *Layer { return newLayer(c, b, activation) })
	m.Layers = m.Layer
	if !b.Undrawn {
		transformer.InitWeights(m, c.InitializerRange, nil)
	}
	return m
}

func newLayer(c Config, b transformer.Builder, activation transformer.Activation) *Layer {
	linear := func(in, out int64, bias bool) *nn.Linear {
		if bias {
			return b.Linear(in, out)
		}
		return b.LinearNoBias(in, out)
	}
	hidden, own, shared := c.HiddenSize, c.NumHeads*c.HeadDim, c.NumKeyValueHeads*c.HeadDim
	bias := c.AttentionBias || c.Type == "qwen2"
	return &Layer{
		SelfAttn: &Attention{
			QProj: linear(hidden, own, bias), KProj: linear(hidden, shared, bias), VProj: linear(hidden, shared, bias),
			OProj: linear(own, hidden, c.AttentionBias), heads: c.NumHeads, dropout: c.AttentionDropout, kind: c.Attention,
		},
		MLP: &MLP{
			GateProj: linear(hidden, c.IntermediateSize, c.MLPBias), UpProj: linear(hidden, c.IntermediateSize, c.MLPBias),
			DownProj: linear(c.IntermediateSize, hidden, c.MLPBias), activation: activation,
		},
		InputLayerNorm:         c.norm(b),
		PostAttentionLayerNorm: c.norm(b),
	}
}

// norm makes a normalisation of hidden states.
func (c Config) norm(b transformer.Builder) *transformer.RMSNorm {
	if c.Type == "gemma" {
		return b.OnePlusRMSNorm(c.HiddenSize, c.RMSNormEps)
	}
	return b.RMSNorm(c.HiddenSize, c.RMSNormEps)
}

// Forward maps token ids, [B, L], to hidden states, [B, L, hidden]. The attention mask, [B, L], has 0
// where a token is padding; undefined means that none is. Positions count from the left, padding
// among them.
func (m *Model) Forward(ids, mask torch.Tensor) torch.Tensor {
	x := m.embed(ids)
	return m.Norm.Forward(m.Decoder.Forward(x, m.mask(mask, x, 0)))
}

// embed maps token ids, [B, L], to [B, L, hidden].
func (m *Model) embed(ids torch.Tensor) torch.Tensor {
	x := m.EmbedTokens.Forward(ids)
	if m.scale != 1 {
		rounded := torch.From([]float64{m.scale}).ToDType(m.EmbedTokens.Weight.DType())
		x = x.MulScalar(rounded.Item())
	}
	return x
}

// mask is of hidden states whose first token is at that position.
func (m *Model) mask(mask, x torch.Tensor, position int64) transformer.Mask {
	made := transformer.CausalMask(mask, x, m.config.Attention)
	made.WideSoftmax = true
	made.Rotary = transformer.NewRotary(m.RotaryEmb.InvFreq, position, x.Size(1), x.DType())
	return made
}

// Decode maps the next tokens of texts, [B, L], to their hidden states, [B, L, hidden], and adds them
// to the past. L is 1 unless the past is empty.
func (m *Model) Decode(ids torch.Tensor, past *transformer.Past) torch.Tensor {
	x := m.embed(ids)
	return m.Norm.Forward(m.Continue(x, m.mask(torch.Tensor{}, x, past.Length()), past))
}

// Forward maps hidden states, [B, L, hidden], to the next ones.
func (l *Layer) Forward(x torch.Tensor, mask transformer.Mask) torch.Tensor {
	return torch.Return(func() torch.Tensor { // what autograd does not need is freed here, not at the end of the step
		return l.Continue(x, mask, transformer.NoPast)
	})
}

// Continue is Forward of tokens that attend to what recall returns.
func (l *Layer) Continue(x torch.Tensor, mask transformer.Mask, recall transformer.Recall) torch.Tensor {
	x = x.Add(l.SelfAttn.forward(l.InputLayerNorm.Forward(x), mask, recall))
	return x.Add(l.MLP.Forward(l.PostAttentionLayerNorm.Forward(x)))
}

func (a *Attention) forward(x torch.Tensor, mask transformer.Mask, recall transformer.Recall) torch.Tensor {
	q, k, v := a.QProj.Forward(x), a.KProj.Forward(x), a.VProj.Forward(x)
	q, k = mask.Rotary.Turn(q), mask.Rotary.Turn(k)
	k, v = recall(k, v)
	dropout := 0.0
	if a.Training() {
		dropout = a.dropout
	}
	return a.OProj.Forward(a.kind.Attend(q, k, v, mask, a.heads, dropout))
}

// Forward maps [..., hidden] to [..., hidden].
func (p *MLP) Forward(x torch.Tensor) torch.Tensor {
	return p.DownProj.Forward(p.activation(p.GateProj.Forward(x)).Mul(p.UpProj.Forward(x)))
}
