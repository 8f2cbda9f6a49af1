package siglip

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// TextModel is SiglipTextModel: token ids in, a vector for each text out.
type TextModel struct {
	Embeddings     *TextEmbeddings `module:"embeddings"`
	Encoder        *Encoder        `module:"encoder"`
	FinalLayerNorm *nn.LayerNorm   `module:"final_layer_norm"`
	Head           *nn.Linear      `module:"head"`

	config TextConfig
	kind   transformer.Attention
}

// TextEmbeddings is SiglipTextEmbeddings: tokens and their positions.
type TextEmbeddings struct {
	TokenEmbedding    *nn.Embedding `module:"token_embedding"`
	PositionEmbedding *nn.Embedding `module:"position_embedding"`
}

func newTextModel(c TextConfig, a transformer.Attention, b transformer.Builder) *TextModel {
	m := &TextModel{config: c, kind: a, Embeddings: &TextEmbeddings{}}
	m.Embeddings.TokenEmbedding = b.Embedding(c.VocabSize, c.HiddenSize, nil)
	m.Embeddings.PositionEmbedding = b.Embedding(c.MaxPositions, c.HiddenSize, nil)
	m.Encoder = newEncoder(c.Layers, a, b)
	m.FinalLayerNorm = b.LayerNorm(c.HiddenSize, c.LayerNormEps)
	m.Head = b.Linear(c.HiddenSize, c.ProjectionSize)
	if !b.Undrawn {
		transformer.InitFlax(m, initializerRange, nil)
	}
	return m
}

// Forward maps token ids, [B, L], to the vectors of texts, [B, projection]: the last hidden
// state, that of padding in a text that is filled, mapped by a linear layer. The attention mask,
// [B, L], has 0 for padding; undefined means that there is none.
func (m *TextModel) Forward(ids, mask torch.Tensor) torch.Tensor {
	width := ids.Size(1)
	if width > m.config.MaxPositions {
		panic(torch.Errorf("siglip.TextModel.Forward", torch.ErrInvalid, "the texts have %d tokens, but the model has "+
			"positions for %d", width, m.config.MaxPositions))
	}
	return torch.Return(func() torch.Tensor {
		positions := torch.TensorOptions{Device: ids.Device()}.Arange(0, width, 1).Unsqueeze(0)
		x := m.Embeddings.TokenEmbedding.Forward(ids).Add(m.Embeddings.PositionEmbedding.Forward(positions))
		padding := transformer.Mask{Padding: transformer.PaddingMask(mask, x.DType(), m.kind), WideSoftmax: true}
		return m.Head.Forward(m.FinalLayerNorm.Forward(m.Encoder.Forward(x, padding)).Select(1, width-1))
	})
}
