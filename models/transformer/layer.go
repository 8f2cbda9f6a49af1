package transformer

import (
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// LayerOptions describes the layers of an [Encoder].
type LayerOptions struct {
	HiddenSize, Heads, IntermediateSize int64

	Activation       Activation
	HiddenDropout    float64 // of what attention and the feed-forward part return
	AttentionDropout float64 // of the attention weights
	LayerNormEps     float64
	Attention        Attention
}

// Layer is attention and a feed-forward part, each followed by dropout, the residual and a layer
// normalisation: BertLayer, and RobertaLayer, which is the same.
type Layer struct {
	Attention    *AttentionBlock `module:"attention"`
	Intermediate *Intermediate   `module:"intermediate"`
	Output       *Output         `module:"output"`
}

// AttentionBlock is BertAttention.
type AttentionBlock struct {
	Self   *SelfAttention `module:"self"`
	Output *Output        `module:"output"`
}

// SelfAttention is BertSelfAttention.
type SelfAttention struct {
	Query   *nn.Linear  `module:"query"`
	Key     *nn.Linear  `module:"key"`
	Value   *nn.Linear  `module:"value"`
	Dropout *nn.Dropout `module:"dropout"`

	Heads       int64
	Kind        Attention
	Projections Projections
}

// Intermediate is BertIntermediate: a linear layer and the activation.
type Intermediate struct {
	Dense *nn.Linear `module:"dense"`

	Activation Activation
}

// Output is BertSelfOutput and BertOutput: a linear layer, dropout, the residual and a layer
// normalisation.
type Output struct {
	Dense     *nn.Linear    `module:"dense"`
	LayerNorm *nn.LayerNorm `module:"LayerNorm"`
	Dropout   *nn.Dropout   `module:"dropout"`
}

// NewLayer makes a Layer.
func NewLayer(b Builder, o LayerOptions) *Layer {
	hidden := o.HiddenSize
	return &Layer{
		Attention: &AttentionBlock{
			Self: &SelfAttention{
				Query: b.Linear(hidden, hidden), Key: b.Linear(hidden, hidden), Value: b.Linear(hidden, hidden),
				Dropout: nn.NewDropout(o.AttentionDropout), Heads: o.Heads, Kind: o.Attention,
			},
			Output: NewOutput(b, hidden, o),
		},
		Intermediate: &Intermediate{Dense: b.Linear(hidden, o.IntermediateSize), Activation: o.Activation},
		Output:       NewOutput(b, o.IntermediateSize, o),
	}
}

// NewOutput makes an Output with the given number of features.
func NewOutput(b Builder, in int64, o LayerOptions) *Output {
	return &Output{Dense: b.Linear(in, o.HiddenSize), LayerNorm: b.LayerNorm(o.HiddenSize, o.LayerNormEps),
		Dropout: nn.NewDropout(o.HiddenDropout)}
}

// Forward maps hidden states, [B, L, hidden] or [T, hidden], to the next ones.
func (l *Layer) Forward(x torch.Tensor, mask Mask) torch.Tensor {
	return torch.Return(func() torch.Tensor { // frees what autograd does not need now, instead of at the end of the step
		x = l.Attention.Output.Forward(l.Attention.Self.Forward(x, mask), x)
		return l.Output.Forward(l.Intermediate.Forward(x), x)
	})
}

// FuseQKVProjections is [Encoder.FuseQKVProjections] for one layer.
func (l *Layer) FuseQKVProjections(on bool) { l.Attention.Self.Projections.Fused = on }

// Forward maps hidden states to the same shape.
func (s *SelfAttention) Forward(x torch.Tensor, mask Mask) torch.Tensor {
	q, k, v := s.Projections.Forward(x, s.Query, s.Key, s.Value)
	return s.Kind.Attend(q, k, v, mask, s.Projections.Here(s.Heads), ActiveDropout(s.Dropout))
}

// DivideHeads keeps one of n equal parts of the heads: see tensor.Heads of package dist/tensor.
func (s *SelfAttention) DivideHeads(n int64, input func(x torch.Tensor) torch.Tensor) error {
	return s.Projections.DivideHeads(s.Heads, n, input)
}

// Forward maps [..., hidden] to [..., intermediate].
func (i *Intermediate) Forward(x torch.Tensor) torch.Tensor { return i.Activation(i.Dense.Forward(x)) }

// Forward maps x, [..., in], to the shape of residual, [..., hidden], which it adds.
func (o *Output) Forward(x, residual torch.Tensor) torch.Tensor {
	return o.LayerNorm.Forward(o.Dropout.Forward(o.Dense.Forward(x)).Add(residual))
}

// ActiveDropout returns the probability of a dropout layer that is applied elsewhere: 0 in
// evaluation mode.
func ActiveDropout(d *nn.Dropout) float64 {
	if d.Training() {
		return d.P
	}
	return 0
}

// DisableDropout sets the probability of all dropout layers of a model to 0, for good:
// disable_dropout_in_model of TRL. What a model drops in its attention without a layer for it, as
// Llama does with attention_dropout, stays.
func DisableDropout(m any) {
	for _, module := range nn.Modules(m) {
		if d, ok := module.Module.(*nn.Dropout); ok {
			d.P = 0
		}
	}
}
