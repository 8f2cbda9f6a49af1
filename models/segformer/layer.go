package segformer

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Layer is SegformerLayer: attention and a feed-forward part. The input of each is normalized, and
// its output is added to that input. Fields are in the order of transformers' modules in memory.
type Layer struct {
	LayerNorm1 *nn.LayerNorm         `module:"layer_norm_1"`
	Attention  *Attention            `module:"attention"`
	DropPath   *transformer.DropPath `module:"drop_path"`
	LayerNorm2 *nn.LayerNorm         `module:"layer_norm_2"`
	MLP        *MixFFN               `module:"mlp"`
	Dropout    *nn.Dropout           `module:"hidden_dropout"`
}

// Attention is SegformerAttention: each position of a map attends to all positions of a smaller
// map, which a convolution makes.
type Attention struct {
	nn.Mode

	Query, Key, Value, Output *nn.Linear `module:"-"` // see OwnModules

	// SR makes the smaller map; nil, like its normalization, if the map keeps its size.
	SR        *nn.Conv2d    `module:"-"`
	LayerNorm *nn.LayerNorm `module:"-"`

	heads   int64
	dropout float64
	kind    transformer.Attention
}

// OwnModules have the names of files, in the order of transformers 5, which has the output before
// what makes the smaller map.
func (a *Attention) OwnModules() []nn.Named {
	return []nn.Named{{Name: "self.query", Module: a.Query}, {Name: "self.key", Module: a.Key},
		{Name: "self.value", Module: a.Value}, {Name: "output.dense", Module: a.Output}, {Name: "self.sr", Module: a.SR},
		{Name: "self.layer_norm", Module: a.LayerNorm}}
}

// MixFFN is SegformerMixMLP: two linear layers, and between them a convolution of each channel with
// its surroundings, which tells a position where it is.
type MixFFN struct {
	Dense1  *nn.Linear     `module:"dense1"`
	DWConv  *DepthWiseConv `module:"dwconv"`
	Dense2  *nn.Linear     `module:"dense2"`
	Dropout *nn.Dropout    `module:"dropout"`

	activation transformer.Activation
}

// DepthWiseConv is SegformerDepthWiseConv.
type DepthWiseConv struct {
	DWConv *nn.Conv2d `module:"dwconv"`
}

func newLayer(c Config, b transformer.Builder, stage int, dropPath float64) *Layer {
	size := c.HiddenSizes[stage]
	l := &Layer{DropPath: &transformer.DropPath{P: dropPath}, Dropout: nn.NewDropout(c.HiddenDropout)}
	l.LayerNorm1 = b.LayerNorm(size, layerNormEps)
	l.Attention = newAttention(c, b, size, c.NumHeads[stage], c.SRRatios[stage])
	l.LayerNorm2 = b.LayerNorm(size, layerNormEps)
	inner := size * c.MLPRatios[stage]
	l.MLP = &MixFFN{activation: c.activation(), Dropout: nn.NewDropout(c.HiddenDropout)}
	l.MLP.Dense1 = b.Linear(size, inner)
	l.MLP.DWConv = &DepthWiseConv{b.Conv2d(inner, inner, nn.Dims{3}, nn.ConvOptions{Padding: nn.Dims{1}, Groups: inner})}
	l.MLP.Dense2 = b.Linear(inner, size)
	return l
}

func newAttention(c Config, b transformer.Builder, size, heads, ratio int64) *Attention {
	a := &Attention{heads: heads, dropout: c.AttentionDropout, kind: c.Attention}
	a.Query, a.Key, a.Value, a.Output = b.Linear(size, size), b.Linear(size, size), b.Linear(size, size),
		b.Linear(size, size)
	if ratio > 1 {
		a.SR = b.Conv2d(size, size, nn.Dims{ratio}, nn.ConvOptions{Stride: nn.Dims{ratio}})
		a.LayerNorm = b.LayerNorm(size, layerNormEps)
	}
	return a
}

// forward maps the positions of a map of that height, [B, H·W, C], to the same shape.
func (l *Layer) forward(x torch.Tensor, height int64) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		y := l.Dropout.Forward(l.Attention.forward(l.LayerNorm1.Forward(x), height))
		x = l.DropPath.Forward(y).Add(x)
		y = l.MLP.forward(l.LayerNorm2.Forward(x), height)
		return l.DropPath.Forward(y).Add(x)
	})
}

func (a *Attention) forward(x torch.Tensor, height int64) torch.Tensor {
	query, keys := a.Query.Forward(x), x
	if a.SR != nil {
		reduced := a.SR.Forward(asMap(x, height))
		keys = a.LayerNorm.Forward(reduced.Flatten(2, -1).Transpose(1, 2))
	}
	size := x.Size(2) / a.heads
	split := func(x torch.Tensor) torch.Tensor { return transformer.SplitHeads(x, size) }
	o := transformer.AttendOptions{}
	if a.Training() {
		o.Dropout = a.dropout
	}
	key, value := a.Key.Forward(keys), a.Value.Forward(keys)
	return a.Output.Forward(a.kind.AttendHeads(split(query), split(key), split(value),
		transformer.Mask{WideSoftmax: true}, o))
}

func (m *MixFFN) forward(x torch.Tensor, height int64) torch.Tensor {
	x = m.DWConv.DWConv.Forward(asMap(m.Dense1.Forward(x), height)).Flatten(2, -1).Transpose(1, 2)
	x = m.Dropout.Forward(m.activation(x))
	return m.Dropout.Forward(m.Dense2.Forward(x))
}

// asMap makes a map, [B, C, H, W], of its positions, [B, H·W, C]. Their numbers stay where they are
// in memory.
func asMap(x torch.Tensor, height int64) torch.Tensor {
	return x.Transpose(1, 2).Unflatten(2, height, -1)
}
