package transformer

import (
	"slices"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// DropPath is stochastic depth (Huang et al., 2016): in training it sets all of x to zero for some
// samples, and divides the others by the probability of being kept.
type DropPath struct {
	nn.Mode

	P float64 // the probability that a sample is set to zero
}

// Forward maps [B, ...] to the same shape. It returns x itself in evaluation mode.
func (d *DropPath) Forward(x torch.Tensor) torch.Tensor {
	if d.P == 0 || !d.Training() {
		return x
	}
	shape := slices.Repeat([]int64{1}, x.Dim())
	shape[0] = x.Size(0)
	draws := torch.TensorOptions{DType: x.DType(), Device: x.Device()}.Rand(shape...)
	return x.DivScalar(1 - d.P).Mul(draws.AddScalar(1 - d.P).Floor())
}
