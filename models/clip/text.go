package clip

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// TextModel is CLIPTextModel: token ids in, a vector for each text out. Tokens attend only to those
// before them.
type TextModel struct {
	Embeddings     *TextEmbeddings `module:"embeddings"`
	Encoder        *Encoder        `module:"encoder"`
	FinalLayerNorm *nn.LayerNorm   `module:"final_layer_norm"`

	config TextConfig
	kind   transformer.Attention
}

// TextEmbeddings is CLIPTextEmbeddings: tokens and their positions.
type TextEmbeddings struct {
	TokenEmbedding    *nn.Embedding `module:"token_embedding"`
	PositionEmbedding *nn.Embedding `module:"position_embedding"`

	factor float64
}

func newTextModel(c TextConfig, a transformer.Attention, b transformer.Builder) *TextModel {
	m := &TextModel{config: c, kind: a, Embeddings: &TextEmbeddings{factor: c.InitializerFactor}}
	m.Embeddings.TokenEmbedding = b.Embedding(c.VocabSize, c.HiddenSize, nil)
	m.Embeddings.PositionEmbedding = b.Embedding(c.MaxPositions, c.HiddenSize, nil)
	m.Encoder = newEncoder(c.Layers, a, b)
	m.FinalLayerNorm = b.LayerNorm(c.HiddenSize, c.LayerNormEps)
	if !b.Undrawn {
		transformer.InitWeights(m, c.InitializerRange, nil)
	}
	return m
}

// DrawWeights draws both embeddings: transformer.WeightDrawer.
func (e *TextEmbeddings) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	draw(wanted, weight{"token_embedding.weight", e.TokenEmbedding.Weight, e.factor * 0.02},
		weight{"position_embedding.weight", e.PositionEmbedding.Weight, e.factor * 0.02})
}

// Forward maps token ids, [B, L], to hidden states, [B, L, hidden]. The attention mask, [B, L], has
// 0 for padding; undefined means that there is none.
func (m *TextModel) Forward(ids, mask torch.Tensor) torch.Tensor {
	width := ids.Size(1)
	if width > m.config.MaxPositions {
		panic(torch.Errorf("clip.TextModel.Forward", torch.ErrInvalid, "the texts have %d tokens, but the model has "+
			"positions for %d", width, m.config.MaxPositions))
	}
	positions := torch.TensorOptions{Device: ids.Device()}.Arange(0, width, 1).Unsqueeze(0)
	x := m.Embeddings.TokenEmbedding.Forward(ids).Add(m.Embeddings.PositionEmbedding.Forward(positions))
	causal := transformer.CausalMask(mask, x, m.kind)
	causal.WideSoftmax = true
	return m.FinalLayerNorm.Forward(m.Encoder.Forward(x, causal))
}

// pool returns the hidden states that stand for texts, [B, hidden], out of all, [B, L, hidden]:
// those of their end tokens.
func (m *TextModel) pool(hidden, ids torch.Tensor) torch.Tensor {
	ends := ids
	if *m.config.EOSTokenID != largestTokenEOS {
		ends = ids.EqScalar(*m.config.EOSTokenID).ToDType(torch.Int32)
	}
	return transformer.TokensAt(hidden, ends.ArgMax(-1, false))
}
