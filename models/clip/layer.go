package clip

import (
	"math"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// Encoder is CLIPEncoder: the layers of the encoder of texts, or of that of images.
type Encoder struct {
	transformer.Encoder[*Layer] `module:"-"` // runs Layers

	Layers []*Layer `module:"layers"`
}

// Layer is CLIPEncoderLayer: attention and a feed-forward part. The input of each is normalized, and
// its output is added to that input.
type Layer struct {
	SelfAttn   *Attention    `module:"self_attn"`
	LayerNorm1 *nn.LayerNorm `module:"layer_norm1"`
	MLP        *MLP          `module:"mlp"`
	LayerNorm2 *nn.LayerNorm `module:"layer_norm2"`
}

// Attention is CLIPAttention.
type Attention struct {
	KProj   *nn.Linear  `module:"k_proj"`
	VProj   *nn.Linear  `module:"v_proj"`
	QProj   *nn.Linear  `module:"q_proj"`
	OutProj *nn.Linear  `module:"out_proj"`
	Dropout *nn.Dropout `module:"dropout"` // of the attention weights

	config      Layers
	kind        transformer.Attention
	projections transformer.Projections
}

// MLP is CLIPMLP.
type MLP struct {
	FC1 *nn.Linear `module:"fc1"`
	FC2 *nn.Linear `module:"fc2"`

	config     Layers
	activation transformer.Activation
}

func newEncoder(c Layers, a transformer.Attention, b transformer.Builder) *Encoder {
	e := &Encoder{Encoder: *transformer.NewEncoder(c.NumLayers, func() *Layer { return newLayer(c, a, b) })}
	e.Layers = e.Layer
	return e
}

func newLayer(c Layers, a transformer.Attention, b transformer.Builder) *Layer {
	linear := func() *nn.Linear { return b.Linear(c.HiddenSize, c.HiddenSize) }
	activation, err := transformer.ActivationByName(c.HiddenAct)
	if err != nil {
		panic(torch.Errorf("clip.Config", torch.ErrValue, "%v; resolve the config first", err))
	}
	l := &Layer{SelfAttn: &Attention{KProj: linear(), VProj: linear(), QProj: linear(), OutProj: linear(),
		Dropout: nn.NewDropout(c.AttentionDropout), config: c, kind: a}}
	l.LayerNorm1 = b.LayerNorm(c.HiddenSize, c.LayerNormEps)
	l.MLP = &MLP{FC1: b.Linear(c.HiddenSize, c.IntermediateSize), FC2: b.Linear(c.IntermediateSize, c.HiddenSize),
		config: c, activation: activation}
	l.LayerNorm2 = b.LayerNorm(c.HiddenSize, c.LayerNormEps)
	return l
}

// Forward maps hidden states, [B, L, hidden], to the next ones.
func (l *Layer) Forward(x torch.Tensor, mask transformer.Mask) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		x = x.Add(l.SelfAttn.forward(l.LayerNorm1.Forward(x), mask))
		return x.Add(l.MLP.forward(l.LayerNorm2.Forward(x)))
	})
}

// FuseQKVProjections is transformer.Encoder's method, for one layer.
func (l *Layer) FuseQKVProjections(on bool) { l.SelfAttn.projections.Fused = on }

func (a *Attention) forward(x torch.Tensor, mask transformer.Mask) torch.Tensor {
	q, k, v := a.projections.Forward(x, a.QProj, a.KProj, a.VProj)
	return a.OutProj.Forward(a.kind.Attend(q, k, v, mask, a.config.NumHeads, transformer.ActiveDropout(a.Dropout)))
}

func (m *MLP) forward(x torch.Tensor) torch.Tensor {
	return m.FC2.Forward(m.activation(m.FC1.Forward(x)))
}

// scaled is the standard deviation of weights that read or write vectors of the given size.
func scaled(size int64, factor float64) float64 { return math.Pow(float64(size), -0.5) * factor }

// residual is the standard deviation of weights that write into the residual stream.
func (l Layers) residual() float64 {
	return math.Pow(float64(l.HiddenSize), -0.5) * math.Pow(float64(2*l.NumLayers), -0.5) * l.InitializerFactor
}

// draw draws weights, by name, from normal distributions with the given standard deviations.
func draw(wanted func(name string, t torch.Tensor) bool, weights ...weight) {
	for _, w := range weights {
		if wanted(w.name, w.tensor) {
			initialize.Normal(w.tensor, 0, w.std, nil)
		}
	}
}

type weight struct {
	name   string
	tensor torch.Tensor
	std    float64
}

// DrawWeights draws the weights of the projections: transformer.WeightDrawer.
func (a *Attention) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	in, out := a.config.residual(), scaled(a.config.HiddenSize, a.config.InitializerFactor)
	draw(wanted, weight{"q_proj.weight", a.QProj.Weight, in}, weight{"k_proj.weight", a.KProj.Weight, in},
		weight{"v_proj.weight", a.VProj.Weight, in}, weight{"out_proj.weight", a.OutProj.Weight, out})
}

// DrawWeights draws the weights of both layers: transformer.WeightDrawer.
func (m *MLP) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	draw(wanted, weight{"fc1.weight", m.FC1.Weight, scaled(2*m.config.HiddenSize, m.config.InitializerFactor)},
		weight{"fc2.weight", m.FC2.Weight, m.config.residual()})
}
