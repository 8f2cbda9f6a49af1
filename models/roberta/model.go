package roberta

import (
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is RobertaModel: ids in, hidden states out.
type Model struct {
	Embeddings *Embeddings                              `module:"embeddings"`
	Encoder    *transformer.Encoder[*transformer.Layer] `module:"encoder"`
	Pooler     *transformer.Pooler                      `module:"pooler"` // nil if the head has no use for it

	config Config
}

// Embeddings is RobertaEmbeddings: the sum of the embeddings of a token, its position and its type.
type Embeddings struct {
	Word      *nn.Embedding `module:"word_embeddings"`
	TokenType *nn.Embedding `module:"token_type_embeddings"`
	LayerNorm *nn.LayerNorm `module:"LayerNorm"`
	Dropout   *nn.Dropout   `module:"dropout"`
	Position  *nn.Embedding `module:"position_embeddings"` // the last field, since transformers draws it last
}

func newModel(c Config, b transformer.Builder) *Model {
	o := c.LayerOptions()
	m := &Model{
		Embeddings: &Embeddings{
			Word:      b.Embedding(c.VocabSize, c.HiddenSize, c.PadTokenID),
			TokenType: b.Embedding(c.TypeVocabSize, c.HiddenSize, nil),
			LayerNorm: b.LayerNorm(c.HiddenSize, c.LayerNormEps),
			Dropout:   nn.NewDropout(*c.HiddenDropout),
			Position:  b.Embedding(c.MaxPositions, c.HiddenSize, c.PadTokenID),
		},
		Encoder: transformer.NewEncoder(c.NumLayers, func() *transformer.Layer { return transformer.NewLayer(b, o) }),
		Pooler:  b.Pooler(c.HiddenSize),
		config:  c,
	}
	if !b.Undrawn {
		transformer.InitWeights(m, c.InitializerRange, nil)
	}
	return m
}

// Forward maps token ids, [B, L], to the hidden states of the last layer, [B, L, hidden]. The
// attention mask, [B, L], is 0 for padding; undefined means no padding. Token types, [B, L], are
// undefined if all are 0.
func (m *Model) Forward(ids, mask, types torch.Tensor) torch.Tensor {
	x := m.Embeddings.Forward(ids, types)
	return m.Encoder.Forward(x, transformer.Mask{Padding: transformer.PaddingMask(mask, x.DType(), m.config.Attention)})
}

// ForwardPacked maps a packed batch to the hidden states of its tokens, [T, hidden].
func (m *Model) ForwardPacked(p *inputs.Packed) torch.Tensor {
	return m.Encoder.Forward(m.Embeddings.At(p.IDs, p.Types, p.Positions), transformer.Mask{Packed: p})
}

// Forward maps ids and types, [B, L], to [B, L, hidden].
func (e *Embeddings) Forward(ids, types torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		return e.At(ids, types, transformer.CountedPositions(ids, *e.Position.PaddingIdx))
	})
}

// At maps ids and types at positions, all [...], to [..., hidden].
func (e *Embeddings) At(ids, types, positions torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		x := e.Word.Forward(ids).Add(e.TokenType.Forward(transformer.TokenTypes(ids, types)))
		x = x.Add(e.Position.Forward(positions))
		return e.Dropout.Forward(e.LayerNorm.Forward(x))
	})
}
