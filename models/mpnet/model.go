package mpnet

import (
	"math"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is MPNetModel: ids in, hidden states out.
type Model struct {
	Embeddings *Embeddings         `module:"embeddings"`
	Encoder    *Encoder            `module:"encoder"`
	Pooler     *transformer.Pooler `module:"pooler"` // nil if the head has no use for it
}

// Embeddings is MPNetEmbeddings: the sum of the embeddings of a token and its position.
type Embeddings struct {
	Word      *nn.Embedding `module:"word_embeddings"`
	Position  *nn.Embedding `module:"position_embeddings"`
	LayerNorm *nn.LayerNorm `module:"LayerNorm"`
	Dropout   *nn.Dropout   `module:"dropout"`
}

// Encoder is a stack of layers that share the bias for distances.
type Encoder struct {
	nn.Mode
	Layer                 []*Layer      `module:"layer"`
	RelativeAttentionBias *nn.Embedding `module:"relative_attention_bias"`

	checkpointing bool
}

// Layer is MPNetLayer: attention and a feed-forward part, each followed by dropout, the residual
// and a layer normalisation.
type Layer struct {
	Attention    *AttentionBlock           `module:"attention"`
	Intermediate *transformer.Intermediate `module:"intermediate"`
	Output       *transformer.Output       `module:"output"`
}

// AttentionBlock is MPNetAttention.
type AttentionBlock struct {
	Attn      *SelfAttention `module:"attn"`
	LayerNorm *nn.LayerNorm  `module:"LayerNorm"`
	Dropout   *nn.Dropout    `module:"dropout"`
}

// SelfAttention is MPNetSelfAttention.
type SelfAttention struct {
	Q       *nn.Linear  `module:"q"`
	K       *nn.Linear  `module:"k"`
	V       *nn.Linear  `module:"v"`
	O       *nn.Linear  `module:"o"`
	Dropout *nn.Dropout `module:"dropout"`

	heads int64
}

func newModel(c Config, b transformer.Builder) *Model {
	m := &Model{
		Embeddings: &Embeddings{
			Word: b.Embedding(c.VocabSize, c.HiddenSize, new(paddingIdx)), Position: b.Embedding(c.MaxPositions,
				c.HiddenSize, new(paddingIdx)),
			LayerNorm: b.LayerNorm(c.HiddenSize, c.LayerNormEps), Dropout: nn.NewDropout(*c.HiddenDropout),
		},
		Encoder: &Encoder{Layer: make([]*Layer, c.NumLayers)},
	}
	for i := range m.Encoder.Layer {
		m.Encoder.Layer[i] = newLayer(c, b)
	}
	m.Encoder.RelativeAttentionBias = b.Embedding(c.Buckets, c.NumHeads, nil)
	m.Pooler = b.Pooler(c.HiddenSize)
	if !b.Undrawn {
		transformer.InitWeights(m, c.InitializerRange, nil)
	}
	return m
}

func newLayer(c Config, b transformer.Builder) *Layer {
	o, hidden := c.LayerOptions(), c.HiddenSize
	return &Layer{
		Attention: &AttentionBlock{
			Attn: &SelfAttention{Q: b.Linear(hidden, hidden), K: b.Linear(hidden, hidden), V: b.Linear(hidden, hidden),
				O: b.Linear(hidden, hidden), Dropout: nn.NewDropout(o.AttentionDropout), heads: c.NumHeads},
			LayerNorm: b.LayerNorm(hidden, o.LayerNormEps), Dropout: nn.NewDropout(o.HiddenDropout),
		},
		Intermediate: &transformer.Intermediate{Dense: b.Linear(hidden, o.IntermediateSize), Activation: o.Activation},
		Output:       transformer.NewOutput(b, o.IntermediateSize, o),
	}
}

// Forward maps token ids, [B, L], to the hidden states of the last layer, [B, L, hidden]. The
// attention mask, [B, L], is 0 for padding; undefined means no padding.
func (m *Model) Forward(ids, mask torch.Tensor) torch.Tensor {
	x := m.Embeddings.Forward(ids)
	return m.Encoder.Forward(x, transformer.PaddingMask(mask, x.DType(), transformer.Eager))
}

// Forward maps ids, [B, L], to [B, L, hidden].
func (e *Embeddings) Forward(ids torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		positions := transformer.CountedPositions(ids, paddingIdx)
		x := e.Word.Forward(ids).Add(e.Position.Forward(positions))
		return e.Dropout.Forward(e.LayerNorm.Forward(x))
	})
}

// SetGradientCheckpointing is [transformer.Encoder.SetGradientCheckpointing].
func (e *Encoder) SetGradientCheckpointing(on bool) { e.checkpointing = on }

// Forward maps [B, L, hidden] to the same shape. The mask is added to scores.
func (e *Encoder) Forward(x, mask torch.Tensor) torch.Tensor {
	bias := e.positionBias(x)
	for _, layer := range e.Layer {
		if e.checkpointing && e.Training() {
			x = torch.Checkpoint(func(in []torch.Tensor) []torch.Tensor {
				return []torch.Tensor{layer.Forward(in[0].View(in[0].Shape()...), in[1], in[2])}
			}, x, mask, bias)[0]
		} else {
			x = layer.Forward(x, mask, bias)
		}
	}
	return x
}

// positionBias returns the bias for the distance of each pair of tokens, [B, heads, L, L].
func (e *Encoder) positionBias(x torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		batch, length := x.Size(0), x.Size(1)
		values := e.RelativeAttentionBias.Forward(buckets(length, x.Device()))
		values = values.Permute(2, 0, 1).Unsqueeze(0)
		return values.Expand(batch, values.Size(1), length, length).Contiguous()
	})
}

// buckets returns the classes of distances, [L, L]. In each direction, distances up to 7 have their
// own class, those up to 128 share eight classes, and greater ones have the last. As in
// transformers, there are 32 classes whatever the config says.
func buckets(length int64, d torch.Device) torch.Tensor {
	at := torch.TensorOptions{DType: torch.Int64, Device: d}.Arange(0, length, 1)
	return transformer.DistanceClasses(at.Unsqueeze(0).Sub(at.Unsqueeze(1)), 32, 128, true)
}

// Forward maps hidden states, [B, L, hidden], to the next ones.
func (l *Layer) Forward(x, mask, bias torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		a := l.Attention
		x = a.LayerNorm.Forward(a.Dropout.Forward(a.Attn.Forward(x, mask, bias)).Add(x))
		return l.Output.Forward(l.Intermediate.Forward(x), x)
	})
}

// Forward maps [B, L, hidden] to the same shape.
func (s *SelfAttention) Forward(x, mask, bias torch.Tensor) torch.Tensor {
	shape := x.Shape()
	size := shape[2] / s.heads
	split := func(x torch.Tensor) torch.Tensor { return x.View(shape[0], shape[1], s.heads, size).Transpose(1, 2) }
	q, k, v := split(s.Q.Forward(x)), split(s.K.Forward(x)), split(s.V.Forward(x))
	scores := q.MatMul(k.Transpose(-1, -2)).DivScalar(math.Sqrt(float64(size))).Add(bias)
	if mask.Defined() {
		scores = scores.Add(mask)
	}
	weights := s.Dropout.Forward(scores.Softmax(-1, torch.DefaultDType))
	out := weights.MatMul(v).Permute(0, 2, 1, 3).Contiguous()
	return s.O.Forward(out.View(shape...))
}
