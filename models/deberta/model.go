package deberta

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is DebertaV2Model: ids in, hidden states out.
type Model struct {
	Embeddings *Embeddings `module:"embeddings"`
	Encoder    *Encoder    `module:"encoder"`
}

// Embeddings is DebertaV2Embeddings: the sum of the embeddings of a token, its position and its
// type.
type Embeddings struct {
	Word      *nn.Embedding `module:"word_embeddings"`
	Position  *nn.Embedding `module:"position_embeddings"`   // nil if only attention depends on positions
	Type      *nn.Embedding `module:"token_type_embeddings"` // nil: there are no types
	Project   *nn.Linear    `module:"embed_proj"`            // nil if the sizes are equal
	LayerNorm *nn.LayerNorm `module:"LayerNorm"`
	Dropout   *nn.Dropout   `module:"dropout"`
}

// Encoder is a stack of layers that share the embeddings of distances.
type Encoder struct {
	nn.Mode
	Layer         []*Layer      `module:"layer"`
	RelEmbeddings *nn.Embedding `module:"rel_embeddings"` // nil if attention is not disentangled
	// for the embeddings of distances; nil: they are not normalised
	LayerNorm *nn.LayerNorm `module:"LayerNorm"`
	Conv      *ConvLayer    `module:"conv"` // nil: there is none

	config        Config
	checkpointing bool
}

// Layer is DebertaV2Layer: attention and a feed-forward part, each followed by dropout, the residual
// and a layer normalisation.
type Layer struct {
	Attention    *AttentionBlock           `module:"attention"`
	Intermediate *transformer.Intermediate `module:"intermediate"`
	Output       *transformer.Output       `module:"output"`
}

// AttentionBlock is DebertaV2Attention.
type AttentionBlock struct {
	Self   *SelfAttention      `module:"self"`
	Output *transformer.Output `module:"output"`
}

// ConvLayer is a convolution of the embeddings; its output is added to that of the first layer.
type ConvLayer struct {
	Conv      *nn.Conv1d    `module:"conv"`
	LayerNorm *nn.LayerNorm `module:"LayerNorm"`
	Dropout   *nn.Dropout   `module:"dropout"`

	activation transformer.Activation
}

func newModel(c Config, b transformer.Builder) *Model {
	m := &Model{Embeddings: newEmbeddings(c, b), Encoder: &Encoder{Layer: make([]*Layer, c.NumLayers), config: c}}
	for i := range m.Encoder.Layer {
		m.Encoder.Layer[i] = newLayer(c, b)
	}
	if c.RelativeAttention {
		m.Encoder.RelEmbeddings = b.Embedding(2*c.span(), c.HiddenSize, nil)
	}
	if c.normalised() {
		m.Encoder.LayerNorm = b.LayerNorm(c.HiddenSize, c.LayerNormEps)
	}
	if c.ConvKernelSize > 0 {
		m.Encoder.Conv = &ConvLayer{Conv: newConv(c, b), LayerNorm: b.LayerNorm(c.HiddenSize, c.LayerNormEps),
			Dropout: nn.NewDropout(*c.HiddenDropout), activation: activation(c.ConvAct)}
	}
	if !b.Undrawn {
		transformer.InitWeights(m, c.InitializerRange, nil)
	}
	return m
}

func newEmbeddings(c Config, b transformer.Builder) *Embeddings {
	e := &Embeddings{Word: b.Embedding(c.VocabSize, c.EmbeddingSize, c.Padding())}
	if *c.PositionBiasedInput {
		e.Position = b.Embedding(c.MaxPositions, c.EmbeddingSize, nil)
	}
	if c.TypeVocabSize > 0 {
		e.Type = b.Embedding(c.TypeVocabSize, c.EmbeddingSize, nil)
	}
	if c.EmbeddingSize != c.HiddenSize {
		e.Project = b.LinearNoBias(c.EmbeddingSize, c.HiddenSize)
	}
	e.LayerNorm, e.Dropout = b.LayerNorm(c.HiddenSize, c.LayerNormEps), nn.NewDropout(*c.HiddenDropout)
	return e
}

func newLayer(c Config, b transformer.Builder) *Layer {
	o := c.LayerOptions()
	l := &Layer{Attention: &AttentionBlock{Self: newSelfAttention(c, b)}}
	l.Attention.Output = transformer.NewOutput(b, o.HiddenSize, o)
	l.Intermediate = &transformer.Intermediate{Dense: b.Linear(o.HiddenSize, o.IntermediateSize), Activation: o.Activation}
	l.Output = transformer.NewOutput(b, o.IntermediateSize, o)
	return l
}

func newConv(c Config, b transformer.Builder) *nn.Conv1d {
	kernel, padding := c.ConvKernelSize, (c.ConvKernelSize-1)/2
	factory := torch.TensorOptions{DType: b.DType}
	if b.Undrawn {
		return &nn.Conv1d{Weight: nn.Parameter(factory.Empty(c.HiddenSize, c.HiddenSize/c.ConvGroups, kernel)),
			Bias:    nn.Parameter(factory.Empty(c.HiddenSize)),
			Options: torch.ConvOptions{Padding: []int64{padding}, Groups: c.ConvGroups}}
	}
	return nn.NewConv1d(c.HiddenSize, c.HiddenSize, nn.Dims{kernel}, &nn.ConvOptions{Padding: nn.Dims{padding},
		Groups: c.ConvGroups, Factory: factory})
}

// Forward maps token ids, [B, L], to the hidden states of the last layer, [B, L, hidden]. The
// attention mask, [B, L], is 0 for padding; undefined means no padding. Token types, [B, L],
// distinguish a second text from the first; undefined means 0.
func (m *Model) Forward(ids, mask, types torch.Tensor) torch.Tensor {
	if mask.Defined() {
		mask = mask.ToDType(torch.Bool)
	}
	return m.Encoder.Forward(m.Embeddings.Forward(ids, mask, types), mask)
}

// Forward maps ids, [B, L], to [B, L, hidden], which is 0 where the mask is false.
func (e *Embeddings) Forward(ids, mask, types torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		x := e.Word.Forward(ids)
		if e.Position != nil {
			at := torch.TensorOptions{DType: torch.Int64, Device: ids.Device()}.Arange(0, ids.Size(1), 1).Unsqueeze(0)
			x = x.Add(e.Position.Forward(at))
		}
		if e.Type != nil {
			x = x.Add(e.Type.Forward(transformer.TokenTypes(ids, types)))
		}
		if e.Project != nil {
			x = e.Project.Forward(x)
		}
		return e.Dropout.Forward(cleared(e.LayerNorm.Forward(x), mask))
	})
}

// cleared sets the hidden states of padding to 0.
func cleared(x, mask torch.Tensor) torch.Tensor {
	if !mask.Defined() {
		return x
	}
	return x.Mul(mask.Unsqueeze(2).ToDType(x.DType()))
}

// SetGradientCheckpointing is [transformer.Encoder.SetGradientCheckpointing].
func (e *Encoder) SetGradientCheckpointing(on bool) { e.checkpointing = on }

// Forward maps [B, L, hidden] to the same shape. The mask, [B, L], is boolean.
func (e *Encoder) Forward(x, mask torch.Tensor) torch.Tensor {
	d := e.distances(x)
	var masked torch.Tensor // where scores are masked, [B, 1, L, L]
	if mask.Defined() {
		masked = mask.Unsqueeze(1).Unsqueeze(2).LogicalAnd(mask.Unsqueeze(1).Unsqueeze(3)).LogicalNot()
	}
	for i, layer := range e.Layer {
		run := func(x, mask, masked torch.Tensor, d distances) torch.Tensor {
			y := layer.Forward(x, masked, d)
			if i == 0 && e.Conv != nil {
				y = e.Conv.Forward(x, y, mask)
			}
			return y
		}
		if e.checkpointing && e.Training() {
			x = torch.Checkpoint(func(in []torch.Tensor) []torch.Tensor {
				return []torch.Tensor{run(in[0].View(in[0].Shape()...), in[1], in[2], distances{in[3], in[4], in[5]})}
			}, x, mask, masked, d.embeddings, d.ahead, d.back)[0]
		} else {
			x = run(x, mask, masked, d)
		}
	}
	return x
}

// Forward maps hidden states, [B, L, hidden], to the next ones.
func (l *Layer) Forward(x, masked torch.Tensor, d distances) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		x = l.Attention.Output.Forward(l.Attention.Self.Forward(x, masked, d), x)
		return l.Output.Forward(l.Intermediate.Forward(x), x)
	})
}

// Forward adds the convolution of x to residual, both [B, L, hidden].
func (c *ConvLayer) Forward(x, residual, mask torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		out := c.Conv.Forward(x.Permute(0, 2, 1).Contiguous()).Permute(0, 2, 1).Contiguous()
		if mask.Defined() {
			out = out.MaskedFill(mask.LogicalNot().Unsqueeze(-1), 0)
		}
		sum := residual.Add(c.activation(c.Dropout.Forward(out)))
		return cleared(c.LayerNorm.Forward(sum).ToDType(sum.DType()), mask)
	})
}
