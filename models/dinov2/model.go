package dinov2

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is Dinov2Model, or Dinov2WithRegistersModel: pixels in, hidden states out.
type Model struct {
	Embeddings *Embeddings                  `module:"embeddings"`
	Encoder    *transformer.Encoder[*Layer] `module:"encoder"`
	LayerNorm  *nn.LayerNorm                `module:"layernorm"`
}

// Layer is Dinov2Layer: attention and a feed-forward part. The input of each is normalized, and its
// output is scaled and added to that input.
type Layer struct {
	Norm1       *nn.LayerNorm         `module:"norm1"`
	Attention   *Attention            `module:"attention"`
	LayerScale1 *LayerScale           `module:"layer_scale1"`
	Norm2       *nn.LayerNorm         `module:"norm2"`
	MLP         MLP                   `module:"mlp"`
	LayerScale2 *LayerScale           `module:"layer_scale2"`
	DropPath    *transformer.DropPath `module:"drop_path"`
}

// Attention is Dinov2Attention.
type Attention struct {
	Self   *transformer.SelfAttention `module:"attention"`
	Output *Output                    `module:"output"`
}

// Output is Dinov2SelfOutput: a linear layer and dropout.
type Output struct {
	Dense   *nn.Linear  `module:"dense"`
	Dropout *nn.Dropout `module:"dropout"`
}

// LayerScale multiplies each feature by a factor.
type LayerScale struct {
	Lambda1 torch.Tensor `param:"lambda1"` // [hidden]

	initial float64
}

// MLP is the feed-forward part of a layer: [TwoLayers] or [SwiGLU].
type MLP interface {
	Forward(x torch.Tensor) torch.Tensor
}

// TwoLayers is Dinov2MLP.
type TwoLayers struct {
	FC1 *nn.Linear `module:"fc1"`
	FC2 *nn.Linear `module:"fc2"`

	activation transformer.Activation
}

// SwiGLU is Dinov2SwiGLUFFN: one half of the first layer's output, after SiLU, times the other half.
type SwiGLU struct {
	WeightsIn  *nn.Linear `module:"weights_in"`
	WeightsOut *nn.Linear `module:"weights_out"`
}

func newModel(c Config, b transformer.Builder) *Model {
	m := &Model{Embeddings: newEmbeddings(c, b)}
	m.Encoder = transformer.NewEncoder(c.NumLayers, func() *Layer { return newLayer(c, b) })
	m.LayerNorm = b.LayerNorm(c.HiddenSize, c.LayerNormEps)
	if !b.Undrawn {
		// Dinov2Encoder is a PreTrainedModel of its own, so transformers draws it first.
		transformer.InitTruncated(m.Encoder, c.InitializerRange, nil)
		transformer.InitTruncated(m.Embeddings, c.InitializerRange, nil)
	}
	return m
}

func newLayer(c Config, b transformer.Builder) *Layer {
	size := c.HiddenSize
	projection := func() *nn.Linear { return b.LinearWith(size, size, *c.QKVBias) }
	scale := func() *LayerScale {
		return &LayerScale{nn.Parameter(torch.TensorOptions{DType: b.DType}.Full(c.LayerScaleValue, size)),
			c.LayerScaleValue}
	}
	l := &Layer{Norm1: b.LayerNorm(size, c.LayerNormEps), DropPath: &transformer.DropPath{P: c.DropPathRate}}
	l.Attention = &Attention{Self: &transformer.SelfAttention{Query: projection(), Key: projection(), Value: projection(),
		Dropout: nn.NewDropout(c.AttentionDropout), Heads: c.NumHeads, Kind: c.Attention,
		Projections: transformer.Projections{KeysFirst: true}}}
	l.Attention.Output = &Output{b.Linear(size, size), nn.NewDropout(c.HiddenDropout)}
	l.LayerScale1, l.Norm2 = scale(), b.LayerNorm(size, c.LayerNormEps)
	l.MLP = newMLP(c, b)
	l.LayerScale2 = scale()
	return l
}

func newMLP(c Config, b transformer.Builder) MLP {
	size, inner := c.HiddenSize, c.HiddenSize*c.MLPRatio
	if c.UseSwiGLUFFN {
		inner = (inner*2/3 + 7) / 8 * 8
		return &SwiGLU{b.Linear(size, 2*inner), b.Linear(inner, size)}
	}
	activation, err := transformer.ActivationByName(c.HiddenAct)
	if err != nil {
		panic(torch.Errorf("dinov2.Config", torch.ErrValue, "%v; resolve the config first", err))
	}
	return &TwoLayers{b.Linear(size, inner), b.Linear(inner, size), activation}
}

// Forward maps the pixels of images, [B, channels, height, width], to the hidden states of their
// tokens, [B, L, hidden]; the first token stands for the image, and registers come before the
// patches. Pixels are converted to the dtype of the weights.
func (m *Model) Forward(pixels torch.Tensor) torch.Tensor {
	x := m.Embeddings.Forward(pixels.ToDType(m.LayerNorm.Weight.DType()))
	return m.LayerNorm.Forward(m.Encoder.Forward(x, transformer.Mask{}))
}

// Forward maps hidden states, [B, L, hidden], to the next ones.
func (l *Layer) Forward(x torch.Tensor, _ transformer.Mask) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		x = l.DropPath.Forward(l.LayerScale1.Forward(l.Attention.Forward(l.Norm1.Forward(x)))).Add(x)
		return l.DropPath.Forward(l.LayerScale2.Forward(l.MLP.Forward(l.Norm2.Forward(x)))).Add(x)
	})
}

// FuseQKVProjections is transformer.Encoder's method, for one layer.
func (l *Layer) FuseQKVProjections(on bool) { l.Attention.Self.Projections.Fused = on }

// Forward maps [B, L, hidden] to the same shape.
func (a *Attention) Forward(x torch.Tensor) torch.Tensor {
	return a.Output.Dropout.Forward(a.Output.Dense.Forward(a.Self.Forward(x, transformer.Mask{})))
}

// Forward multiplies x, [..., hidden], by the factors.
func (s *LayerScale) Forward(x torch.Tensor) torch.Tensor { return x.Mul(s.Lambda1) }

// DrawWeights sets the initial factors: transformer.WeightDrawer.
func (s *LayerScale) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	if wanted("lambda1", s.Lambda1) {
		initialize.Constant(s.Lambda1, s.initial)
	}
}

// Forward maps [..., hidden] to the same shape.
func (m *TwoLayers) Forward(x torch.Tensor) torch.Tensor {
	return m.FC2.Forward(m.activation(m.FC1.Forward(x)))
}

// Forward maps [..., hidden] to the same shape.
func (m *SwiGLU) Forward(x torch.Tensor) torch.Tensor {
	x = m.WeightsIn.Forward(x)
	half := x.Size(-1) / 2
	return m.WeightsOut.Forward(x.Narrow(-1, 0, half).SiLU().Mul(x.Narrow(-1, half, half)))
}
