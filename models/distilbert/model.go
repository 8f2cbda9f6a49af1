package distilbert

import (
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is DistilBertModel: ids in, hidden states out.
type Model struct {
	Embeddings *Embeddings                  `module:"embeddings"`
	Encoder    *transformer.Encoder[*Block] `module:"transformer"`

	config Config
}

// Embeddings is DistilBERT's Embeddings: the sum of the embeddings of a token and its position.
type Embeddings struct {
	Word      *nn.Embedding `module:"word_embeddings"`
	Position  *nn.Embedding `module:"position_embeddings"`
	LayerNorm *nn.LayerNorm `module:"LayerNorm"`
	Dropout   *nn.Dropout   `module:"dropout"`
}

// Block is TransformerBlock: attention and a feed-forward part, each followed by the residual and a
// layer normalisation.
type Block struct {
	Attention       *SelfAttention `module:"attention"`
	SALayerNorm     *nn.LayerNorm  `module:"sa_layer_norm"`
	FFN             *FFN           `module:"ffn"`
	OutputLayerNorm *nn.LayerNorm  `module:"output_layer_norm"`
}

// SelfAttention is DistilBertSelfAttention.
type SelfAttention struct {
	Query   *nn.Linear  `module:"q_lin"`
	Key     *nn.Linear  `module:"k_lin"`
	Value   *nn.Linear  `module:"v_lin"`
	Out     *nn.Linear  `module:"out_lin"`
	Dropout *nn.Dropout `module:"dropout"`

	heads int64
	kind  transformer.Attention

	projections transformer.Projections
}

// FFN is two linear layers with an activation between them, followed by dropout.
type FFN struct {
	Lin1    *nn.Linear  `module:"lin1"`
	Lin2    *nn.Linear  `module:"lin2"`
	Dropout *nn.Dropout `module:"dropout"`

	activation transformer.Activation
}

func newModel(c Config, b transformer.Builder, activation transformer.Activation) *Model {
	padding := c.PadTokenID
	if *padding < 0 {
		padding = nil
	}
	m := &Model{
		Embeddings: &Embeddings{
			Word: b.Embedding(c.VocabSize, c.Dim, padding), Position: b.Embedding(c.MaxPositions, c.Dim, nil),
			LayerNorm: b.LayerNorm(c.Dim, layerNormEps), Dropout: nn.NewDropout(*c.Dropout),
		},
		Encoder: transformer.NewEncoder(c.NumLayers, func() *Block { return newBlock(c, b, activation) }),
		config:  c,
	}
	if !b.Undrawn {
		transformer.InitWeights(m, c.InitializerRange, nil)
	}
	return m
}

func newBlock(c Config, b transformer.Builder, activation transformer.Activation) *Block {
	return &Block{
		Attention: &SelfAttention{
			Query: b.Linear(c.Dim, c.Dim), Key: b.Linear(c.Dim, c.Dim), Value: b.Linear(c.Dim, c.Dim),
			Out:     b.Linear(c.Dim, c.Dim),
			Dropout: nn.NewDropout(*c.AttentionDropout), heads: c.NumHeads, kind: c.Attention,
		},
		SALayerNorm: b.LayerNorm(c.Dim, layerNormEps),
		FFN: &FFN{Lin1: b.Linear(c.Dim, c.HiddenDim), Lin2: b.Linear(c.HiddenDim, c.Dim),
			Dropout: nn.NewDropout(*c.Dropout), activation: activation},
		OutputLayerNorm: b.LayerNorm(c.Dim, layerNormEps),
	}
}

// Forward maps token ids, [B, L], to the hidden states of the last layer, [B, L, dim]. The
// attention mask, [B, L], is 0 for padding; undefined means no padding.
func (m *Model) Forward(ids, mask torch.Tensor) torch.Tensor {
	x := m.Embeddings.Forward(ids)
	return m.Encoder.Forward(x, transformer.Mask{Padding: transformer.PaddingMask(mask, x.DType(), m.config.Attention)})
}

// ForwardPacked maps a packed batch to the hidden states of its tokens, [T, dim].
func (m *Model) ForwardPacked(p *inputs.Packed) torch.Tensor {
	return m.Encoder.Forward(m.Embeddings.At(p.IDs, p.Positions), transformer.Mask{Packed: p})
}

// Forward maps ids, [B, L], to [B, L, dim].
func (e *Embeddings) Forward(ids torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		positions := torch.TensorOptions{DType: torch.Int64, Device: ids.Device()}.Arange(0, ids.Size(1), 1)
		return e.At(ids, positions.Unsqueeze(0))
	})
}

// At maps ids, [...], at the given positions, of the same shape or broadcast to it, to [..., dim].
func (e *Embeddings) At(ids, positions torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		x := e.Word.Forward(ids).Add(e.Position.Forward(positions))
		return e.Dropout.Forward(e.LayerNorm.Forward(x))
	})
}

// Forward maps hidden states, [B, L, dim] or [T, dim], to the next ones.
func (b *Block) Forward(x torch.Tensor, mask transformer.Mask) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		x = b.SALayerNorm.Forward(b.Attention.Forward(x, mask).Add(x))
		return b.OutputLayerNorm.Forward(b.FFN.Forward(x).Add(x))
	})
}

// FuseQKVProjections is transformer.Encoder's method, for one layer.
func (b *Block) FuseQKVProjections(on bool) { b.Attention.projections.Fused = on }

// Forward maps hidden states to the same shape.
func (s *SelfAttention) Forward(x torch.Tensor, mask transformer.Mask) torch.Tensor {
	q, k, v := s.projections.Forward(x, s.Query, s.Key, s.Value)
	heads := s.projections.Here(s.heads)
	return s.Out.Forward(s.kind.Attend(q, k, v, mask, heads, transformer.ActiveDropout(s.Dropout)))
}

// DivideHeads keeps one of n equal parts of the heads: see tensor.Heads of package dist/tensor.
func (s *SelfAttention) DivideHeads(n int64, input func(x torch.Tensor) torch.Tensor) error {
	return s.projections.DivideHeads(s.heads, n, input)
}

// Forward maps [..., dim] to the same shape.
func (f *FFN) Forward(x torch.Tensor) torch.Tensor {
	return f.Dropout.Forward(f.Lin2.Forward(f.activation(f.Lin1.Forward(x))))
}
