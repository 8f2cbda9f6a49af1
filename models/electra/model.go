package electra

import (
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is ElectraModel: ids in, hidden states out.
type Model struct {
	Embeddings *bert.Embeddings                         `module:"embeddings"`
	Project    *nn.Linear                               `module:"embeddings_project"` // nil if the sizes are equal
	Encoder    *transformer.Encoder[*transformer.Layer] `module:"encoder"`

	attention transformer.Attention
}

func newModel(c Config, b transformer.Builder) *Model {
	o := c.LayerOptions()
	m := &Model{Embeddings: bert.NewEmbeddings(c.Config, b, c.EmbeddingSize), attention: c.Attention}
	if c.EmbeddingSize != c.HiddenSize {
		m.Project = b.Linear(c.EmbeddingSize, c.HiddenSize)
	}
	m.Encoder = transformer.NewEncoder(c.NumLayers, func() *transformer.Layer { return transformer.NewLayer(b, o) })
	if !b.Undrawn {
		transformer.InitWeights(m, c.InitializerRange, nil)
	}
	return m
}

// Forward maps token ids, [B, L], to the hidden states of the last layer, [B, L, hidden]. The
// attention mask, [B, L], is 0 for padding; undefined means no padding. Token types, [B, L],
// distinguish a second text from the first; undefined means 0.
func (m *Model) Forward(ids, mask, types torch.Tensor) torch.Tensor {
	x := m.project(m.Embeddings.Forward(ids, types))
	return m.Encoder.Forward(x, transformer.Mask{Padding: transformer.PaddingMask(mask, x.DType(), m.attention)})
}

// ForwardPacked maps a packed batch to the hidden states of its tokens, [T, hidden].
func (m *Model) ForwardPacked(p *inputs.Packed) torch.Tensor {
	return m.Encoder.Forward(m.project(m.Embeddings.At(p.IDs, p.Types, p.Positions)), transformer.Mask{Packed: p})
}

func (m *Model) project(x torch.Tensor) torch.Tensor {
	if m.Project == nil {
		return x
	}
	return m.Project.Forward(x)
}
