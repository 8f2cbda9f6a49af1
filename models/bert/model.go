package bert

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is BertModel: ids in, hidden states out.
type Model struct {
	Embeddings *Embeddings                              `module:"embeddings"`
	Encoder    *transformer.Encoder[*transformer.Layer] `module:"encoder"`
	Pooler     *Pooler                                  `module:"pooler"`

	config Config
}

// Embeddings is BertEmbeddings: the sum of the embeddings of a token, its position and its type.
type Embeddings struct {
	Word      *nn.Embedding `module:"word_embeddings"`
	Position  *nn.Embedding `module:"position_embeddings"`
	TokenType *nn.Embedding `module:"token_type_embeddings"`
	LayerNorm *nn.LayerNorm `module:"LayerNorm"`
	Dropout   *nn.Dropout   `module:"dropout"`
}

// Pooler is BertPooler: a linear layer and tanh over the first token.
type Pooler = transformer.Pooler

// New makes a model with random weights, the same that transformers draws from the same seed.
func New(c Config) (*Model, error) {
	c, err := c.Resolved(kind)
	if err != nil {
		return nil, fmt.Errorf("bert: Config: %w", err)
	}
	var m *Model
	if err := torch.Try(func() { m = newModel(c, transformer.Builder{}) }); err != nil {
		return nil, fmt.Errorf("bert: %w", err)
	}
	return m, nil
}

func newModel(c Config, b transformer.Builder) *Model { return newEncoder(c, b, true) }

// newEncoder makes a model. Without a pooler, it is transformers' model with
// add_pooling_layer=False.
func newEncoder(c Config, b transformer.Builder, pooler bool) *Model {
	o := c.LayerOptions()
	m := &Model{
		Embeddings: NewEmbeddings(c, b, c.HiddenSize),
		Encoder: transformer.NewEncoder(c.NumLayers, func() *transformer.Layer {
			return transformer.NewLayer(b, o)
		}),
		config: c,
	}
	if pooler {
		m.Pooler = &Pooler{Dense: b.Linear(c.HiddenSize, c.HiddenSize)}
	}
	if !b.Undrawn {
		transformer.InitWeights(m, c.InitializerRange, nil)
	}
	return m
}

// NewEmbeddings makes the embeddings of a resolved config, of the given size: ELECTRA's may be
// narrower than its hidden states.
func NewEmbeddings(c Config, b transformer.Builder, size int64) *Embeddings {
	return &Embeddings{
		Word:      b.Embedding(c.VocabSize, size, c.Padding()),
		Position:  b.Embedding(c.MaxPositions, size, nil),
		TokenType: b.Embedding(c.TypeVocabSize, size, nil),
		LayerNorm: b.LayerNorm(size, c.LayerNormEps),
		Dropout:   nn.NewDropout(*c.HiddenDropout),
	}
}

// Config returns the model's configuration with all defaults filled in.
func (m *Model) Config() Config { return m.config }

// Save writes config.json and model.safetensors into dir, for AutoModel.from_pretrained and
// [LoadClassifier]. It creates dir if needed.
func (m *Model) Save(dir string) error { return save(dir, m, m.config, baseArchitecture) }

// InputEmbeddings returns the embedding of the tokens: get_input_embeddings.
func (m *Model) InputEmbeddings() *nn.Embedding { return m.Embeddings.Word }

// SetGradientCheckpointing is [transformer.Encoder.SetGradientCheckpointing].
func (m *Model) SetGradientCheckpointing(on bool) { m.Encoder.SetGradientCheckpointing(on) }

// Forward maps token ids, [B, L], to the hidden states of the last layer, [B, L, hidden], and to
// the pooler's output for the first token, [B, hidden]. The attention mask, [B, L], is 0 for
// padding; undefined means no padding. Token types, [B, L], distinguish a second text from the
// first; undefined means 0.
func (m *Model) Forward(ids, mask, types torch.Tensor) (hidden, pooled torch.Tensor) {
	hidden = m.Hidden(ids, mask, types)
	return hidden, m.Pooler.Forward(hidden)
}

// Hidden is [Model.Forward] without the pooler.
func (m *Model) Hidden(ids, mask, types torch.Tensor) torch.Tensor {
	x := m.Embeddings.Forward(ids, types)
	return m.Encoder.Forward(x, transformer.Mask{Padding: transformer.PaddingMask(mask, x.DType(), m.config.Attention)})
}

// HiddenPacked maps a packed batch to the hidden states of its tokens, [T, hidden].
func (m *Model) HiddenPacked(p *inputs.Packed) torch.Tensor {
	return m.Encoder.Forward(m.Embeddings.At(p.IDs, p.Types, p.Positions), transformer.Mask{Packed: p})
}

// Forward maps ids and types, [B, L], to [B, L, hidden].
func (e *Embeddings) Forward(ids, types torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		positions := torch.TensorOptions{DType: torch.Int64, Device: ids.Device()}.Arange(0, ids.Size(1), 1)
		return e.at(ids, types, positions.Unsqueeze(0))
	})
}

// At maps ids and types, [...], at the given positions, of the same shape or broadcast to it, to
// [..., hidden].
func (e *Embeddings) At(ids, types, positions torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor { return e.at(ids, types, positions) })
}

func (e *Embeddings) at(ids, types, positions torch.Tensor) torch.Tensor {
	x := e.Word.Forward(ids).Add(e.TokenType.Forward(transformer.TokenTypes(ids, types)))
	x = x.Add(e.Position.Forward(positions))
	return e.Dropout.Forward(e.LayerNorm.Forward(x))
}
