package modernbert

import (
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is ModernBertModel: ids in, hidden states out.
type Model struct {
	nn.Mode
	Embeddings *Embeddings      `module:"embeddings"`
	Layers     []*Layer         `module:"layers"`
	FinalNorm  *nn.LayerNorm    `module:"final_norm"`
	RotaryEmb  *RotaryEmbedding `module:"rotary_emb"`

	config        Config
	checkpointing bool
}

// RotaryEmbedding holds the inverse frequencies of rotary positions, [head size/2], for each type
// of layer.
type RotaryEmbedding struct {
	Full    torch.Tensor `buffer:"full_attention_inv_freq,nonpersistent"`
	Sliding torch.Tensor `buffer:"sliding_attention_inv_freq,nonpersistent"`
}

// Embeddings is ModernBertEmbeddings: the embeddings of tokens, normalised.
type Embeddings struct {
	Tokens *nn.Embedding `module:"tok_embeddings"`
	Norm   *nn.LayerNorm `module:"norm"`
	Drop   *nn.Dropout   `module:"drop"`

	std deviations
}

// Layer is ModernBertEncoderLayer: attention and a feed-forward part. The input of each is
// normalised, and its output is added to that input.
type Layer struct {
	AttnNorm *nn.LayerNorm `module:"attn_norm"` // nil in the first layer: its input is already normalised
	Attn     *Attention    `module:"attn"`
	MLPNorm  *nn.LayerNorm `module:"mlp_norm"`
	MLP      *MLP          `module:"mlp"`

	kind string // full or sliding
}

// MLP is ModernBertMLP: one half of the first layer's output, after the activation, times the other
// half.
type MLP struct {
	Wi   *nn.Linear  `module:"Wi"`
	Drop *nn.Dropout `module:"drop"`
	Wo   *nn.Linear  `module:"Wo"`

	activation transformer.Activation
	std        deviations
}

func newModel(c Config, b transformer.Builder) *Model {
	std := c.deviations()
	m := &Model{config: c, Layers: make([]*Layer, c.NumLayers),
		Embeddings: &Embeddings{Tokens: b.Embedding(c.VocabSize, c.HiddenSize, c.padding()), Norm: norm(c, b),
			Drop: nn.NewDropout(c.EmbeddingDropout), std: std}}
	for i := range m.Layers {
		l := &Layer{kind: c.LayerTypes[i]}
		if i > 0 {
			l.AttnNorm = norm(c, b)
		}
		l.Attn = newAttention(c, b, l.kind)
		l.MLPNorm = norm(c, b)
		l.MLP = &MLP{Wi: b.LinearWith(c.HiddenSize, 2*c.IntermediateSize, c.MLPBias), Drop: nn.NewDropout(c.MLPDropout),
			Wo: b.LinearWith(c.IntermediateSize, c.HiddenSize, c.MLPBias), activation: activation(c.HiddenActivation), std: std}
		m.Layers[i] = l
	}
	m.FinalNorm = norm(c, b)
	size := c.HiddenSize / c.NumHeads
	m.RotaryEmb = &RotaryEmbedding{Full: nn.Buffer(transformer.RotaryFrequencies(c.GlobalTheta, size, nil)),
		Sliding: nn.Buffer(transformer.RotaryFrequencies(c.LocalTheta, size, nil))}
	if !b.Undrawn {
		transformer.InitWeights(m, c.InitializerRange, nil)
	}
	return m
}

// padding returns the row of the embedding that is not trained, or nil if there is none.
func (c Config) padding() *int64 {
	if *c.PadTokenID < 0 {
		return nil
	}
	return c.PadTokenID
}

func norm(c Config, b transformer.Builder) *nn.LayerNorm {
	return nn.NewLayerNorm(nn.Dims{c.HiddenSize}, &nn.LayerNormOptions{Eps: c.NormEps, NoBias: !c.NormBias,
		Factory: torch.TensorOptions{DType: b.DType}})
}

// Forward maps token ids, [B, L], to the hidden states of the last layer, [B, L, hidden]. The
// attention mask, [B, L], is 0 for padding; undefined means no padding.
func (m *Model) Forward(ids, mask torch.Tensor) torch.Tensor {
	x := m.Embeddings.Forward(ids)
	at := torch.TensorOptions{Device: ids.Device()}.Arange(0, ids.Size(1), 1)
	return m.layers(x, m.masks(mask, x), at, nil)
}

// ForwardPacked maps a packed batch to the hidden states of its tokens, [T, hidden].
func (m *Model) ForwardPacked(p *inputs.Packed) torch.Tensor {
	x := m.Embeddings.Forward(p.IDs.Unsqueeze(0)) // a single row, in which each text attends only to itself
	return m.layers(x, map[string]torch.Tensor{}, p.Positions, p).SqueezeDim(0)
}

// layers runs the layers on hidden states of tokens at the given positions, [L].
func (m *Model) layers(x torch.Tensor, masks map[string]torch.Tensor, positions torch.Tensor,
	p *inputs.Packed) torch.Tensor {
	turns := map[string]turn{full: newTurn(m.RotaryEmb.Full, positions, x.DType()),
		sliding: newTurn(m.RotaryEmb.Sliding, positions, x.DType())}
	for _, layer := range m.Layers {
		mask, t := masks[layer.kind], turns[layer.kind]
		if m.checkpointing && m.Training() {
			x = torch.Checkpoint(func(in []torch.Tensor) []torch.Tensor {
				return []torch.Tensor{layer.Forward(in[0].View(in[0].Shape()...), in[1], turn{in[2], in[3]}, p)}
			}, x, mask, t.cos, t.sin)[0]
		} else {
			x = layer.Forward(x, mask, t, p)
		}
	}
	return m.FinalNorm.Forward(x)
}

// SetGradientCheckpointing is [transformer.Stack.SetGradientCheckpointing].
func (m *Model) SetGradientCheckpointing(on bool) { m.checkpointing = on }

// Forward maps ids, [B, L], to [B, L, hidden].
func (e *Embeddings) Forward(ids torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor { return e.Drop.Forward(e.Norm.Forward(e.Tokens.Forward(ids))) })
}

// Forward maps hidden states, [B, L, hidden], to the next ones. The mask selects scores or is added
// to them; for a packed batch it is undefined.
func (l *Layer) Forward(x, mask torch.Tensor, t turn, p *inputs.Packed) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		in := x
		if l.AttnNorm != nil {
			in = l.AttnNorm.Forward(x)
		}
		x = x.Add(l.Attn.Forward(in, mask, t, p))
		return x.Add(l.MLP.Forward(l.MLPNorm.Forward(x)))
	})
}

// Forward maps [..., hidden] to the same shape.
func (m *MLP) Forward(x torch.Tensor) torch.Tensor {
	halves := m.Wi.Forward(x).Chunk(2, -1)
	return m.Wo.Forward(m.Drop.Forward(m.activation(halves[0]).Mul(halves[1])))
}
