package initialize

import (
	"math"

	"github.com/gotrainer/gotrainer/torch"
)

// FanMode says which variance [KaimingUniform] preserves.
type FanMode int

// The fan modes.
const (
	FanIn  FanMode = iota // keeps the variance of activations in the forward pass
	FanOut                // keeps the variance of gradients in the backward pass
)

// Nonlinearity names the function after a layer, as in torch.nn.functional.
type Nonlinearity string

// The nonlinearities with a known gain. Linear also stands for convolutions.
const (
	Linear    Nonlinearity = "linear"
	Sigmoid   Nonlinearity = "sigmoid"
	Tanh      Nonlinearity = "tanh"
	ReLU      Nonlinearity = "relu"
	LeakyReLU Nonlinearity = "leaky_relu"
	SELU      Nonlinearity = "selu"
)

// CalculateGain returns the recommended gain for a nonlinearity, which makes up for how much it
// shrinks its input: torch.nn.init.calculate_gain. The negative slope is used for LeakyReLU only;
// PyTorch's default is 0.01. It panics if the nonlinearity is not one of the constants.
func CalculateGain(n Nonlinearity, negativeSlope float64) float64 {
	switch n {
	case Linear, Sigmoid:
		return 1
	case Tanh:
		return 5.0 / 3
	case ReLU:
		return math.Sqrt2
	case LeakyReLU:
		return math.Sqrt(2 / (1 + float64(negativeSlope*negativeSlope))) // the conversion prevents a fused multiply-add
	case SELU:
		return 3.0 / 4
	}
	panic(torch.Errorf("initialize.CalculateGain", torch.ErrValue, "the nonlinearity %q is not known; want one of "+
		"linear, sigmoid, tanh, relu, "+
		"leaky_relu, selu", n))
}

// Fans returns how many inputs an output of a weight depends on, and how many outputs an input
// reaches. It panics if the weight has fewer than two dimensions.
func Fans(weight torch.Tensor) (in, out int64) { return fans("Fans", weight) }

func fans(op string, t torch.Tensor) (in, out int64) {
	shape := t.Shape()
	if len(shape) < 2 {
		panic(torch.Errorf("initialize."+op, torch.ErrValue, "a fan needs a tensor of 2 or more dimensions, found %v",
			shape))
	}
	field := int64(1)
	for _, s := range shape[2:] {
		field *= s
	}
	return shape[1] * field, shape[0] * field
}
