package convnext

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Layer is ConvNextLayer: a convolution of each channel with its surroundings, then two linear
// layers over the channels of each position. The result is added to the input.
type Layer struct {
	LayerScale torch.Tensor          `param:"layer_scale_parameter"` // [channels]; undefined: there is none
	DWConv     *nn.Conv2d            `module:"dwconv"`
	LayerNorm  *nn.LayerNorm         `module:"layernorm"`
	PWConv1    *nn.Linear            `module:"pwconv1"`
	GRN        *GRN                  `module:"grn"` // only in V2
	PWConv2    *nn.Linear            `module:"pwconv2"`
	DropPath   *transformer.DropPath `module:"drop_path"`

	activation transformer.Activation
}

func newLayer(c Config, b transformer.Builder, size int64, dropPath float64) *Layer {
	activation, err := transformer.ActivationByName(c.HiddenAct)
	if err != nil {
		panic(torch.Errorf("convnext.Config", torch.ErrValue, "%v; resolve the config first", err))
	}
	factory := torch.TensorOptions{DType: b.DType}
	l := &Layer{activation: activation, DropPath: &transformer.DropPath{P: dropPath}}
	l.DWConv = b.Conv2d(size, size, nn.Dims{7}, nn.ConvOptions{Padding: nn.Dims{3}, Groups: size})
	l.LayerNorm = b.LayerNorm(size, innerEps)
	l.PWConv1 = b.Linear(size, 4*size)
	if c.V2 {
		l.GRN = &GRN{Weight: nn.Parameter(factory.Zeros(1, 1, 1, 4*size)), Bias: nn.Parameter(factory.Zeros(1, 1, 1, 4*size))}
	}
	l.PWConv2 = b.Linear(4*size, size)
	if c.LayerScaleInitValue > 0 {
		l.LayerScale = nn.Parameter(factory.Ones(size).MulScalar(c.LayerScaleInitValue))
	}
	return l
}

// Forward maps [B, C, H, W] to the same shape.
func (l *Layer) Forward(x torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		y := l.LayerNorm.Forward(l.DWConv.Forward(x).Permute(0, 2, 3, 1)) // [B, H, W, C]
		y = l.activation(l.PWConv1.Forward(y))
		if l.GRN != nil {
			y = l.GRN.Forward(y)
		}
		y = l.PWConv2.Forward(y)
		if l.LayerScale.Defined() {
			y = l.LayerScale.Mul(y)
		}
		return x.Add(l.DropPath.Forward(y.Permute(0, 3, 1, 2)))
	})
}

// GRN is ConvNextV2GRN, global response normalization: it scales each channel by its norm over an
// image, relative to the mean norm of all channels.
type GRN struct {
	Weight torch.Tensor `param:"weight"` // [1, 1, 1, channels]
	Bias   torch.Tensor `param:"bias"`   // [1, 1, 1, channels]
}

// Forward maps [B, H, W, C] to the same shape.
func (g *GRN) Forward(x torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		norms := torch.Call("aten::linalg_vector_norm", x, 2, []int64{1, 2}, true, nil)[0]
		norms = norms.Div(norms.MeanDim([]int64{-1}, true, torch.DefaultDType).AddScalar(1e-6))
		return g.Weight.Mul(x.Mul(norms)).Add(g.Bias).Add(x)
	})
}
