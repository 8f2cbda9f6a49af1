package siglip

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// Encoder is SiglipEncoder: the layers of the encoder of texts, or of that of images.
type Encoder struct {
	transformer.Encoder[*Layer] `module:"-"` // runs Layers

	Layers []*Layer `module:"layers"`
}

// Layer is SiglipEncoderLayer: attention and a feed-forward part. The input of each is
// normalized, and its output is added to that input.
type Layer struct {
	LayerNorm1 *nn.LayerNorm `module:"layer_norm1"`
	SelfAttn   *Attention    `module:"self_attn"`
	LayerNorm2 *nn.LayerNorm `module:"layer_norm2"`
	MLP        *MLP          `module:"mlp"`
}

// Attention is SiglipAttention.
type Attention struct {
	KProj   *nn.Linear  `module:"k_proj"`
	VProj   *nn.Linear  `module:"v_proj"`
	QProj   *nn.Linear  `module:"q_proj"`
	OutProj *nn.Linear  `module:"out_proj"`
	Dropout *nn.Dropout `module:"dropout"` // of the attention weights

	heads       int64
	kind        transformer.Attention
	projections transformer.Projections
}

// MLP is SiglipMLP.
type MLP struct {
	FC1 *nn.Linear `module:"fc1"`
	FC2 *nn.Linear `module:"fc2"`

	activation transformer.Activation
}

func newEncoder(c Layers, a transformer.Attention, b transformer.Builder) *Encoder {
	e := &Encoder{Encoder: *transformer.NewEncoder(c.NumLayers, func() *Layer { return newLayer(c, a, b) })}
	e.Layers = e.Layer
	return e
}

func newLayer(c Layers, a transformer.Attention, b transformer.Builder) *Layer {
	linear := func() *nn.Linear { return b.Linear(c.HiddenSize, c.HiddenSize) }
	l := &Layer{LayerNorm1: b.LayerNorm(c.HiddenSize, c.LayerNormEps)}
	l.SelfAttn = &Attention{KProj: linear(), VProj: linear(), QProj: linear(), OutProj: linear(),
		Dropout: nn.NewDropout(c.AttentionDropout), heads: c.NumHeads, kind: a}
	l.LayerNorm2 = b.LayerNorm(c.HiddenSize, c.LayerNormEps)
	l.MLP = newMLP(c, b)
	return l
}

func newMLP(c Layers, b transformer.Builder) *MLP {
	activation, err := transformer.ActivationByName(c.HiddenAct)
	if err != nil {
		panic(torch.Errorf("siglip.Config", torch.ErrValue, "%v; resolve the config first", err))
	}
	return &MLP{FC1: b.Linear(c.HiddenSize, c.IntermediateSize), FC2: b.Linear(c.IntermediateSize, c.HiddenSize),
		activation: activation}
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
	return a.OutProj.Forward(a.kind.Attend(q, k, v, mask, a.heads, transformer.ActiveDropout(a.Dropout)))
}

func (m *MLP) forward(x torch.Tensor) torch.Tensor {
	return m.FC2.Forward(m.activation(m.FC1.Forward(x)))
}

// DrawWeights draws the weights of the projections: transformer.WeightDrawer.
func (a *Attention) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	layers := []struct {
		name  string
		layer *nn.Linear
	}{{"q_proj", a.QProj}, {"k_proj", a.KProj}, {"v_proj", a.VProj}, {"out_proj", a.OutProj}}
	for _, l := range layers {
		drawXavier(wanted, l.name+".weight", l.layer.Weight)
	}
}

// DrawWeights draws the weights and the biases of both layers: transformer.WeightDrawer.
func (m *MLP) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	drawXavier(wanted, "fc1.weight", m.FC1.Weight)
	drawXavier(wanted, "fc2.weight", m.FC2.Weight)
	const little = 1e-6
	drawNormal(wanted, "fc1.bias", m.FC1.Bias, little)
	drawNormal(wanted, "fc2.bias", m.FC2.Bias, little)
}

func drawXavier(wanted func(name string, t torch.Tensor) bool, name string, t torch.Tensor) {
	if wanted(name, t) {
		initialize.XavierUniform(t, 1, nil)
	}
}

func drawNormal(wanted func(name string, t torch.Tensor) bool, name string, t torch.Tensor, std float64) {
	if wanted(name, t) {
		initialize.Normal(t, 0, std, nil)
	}
}
