package functional

import "github.com/gotrainer/gotrainer/torch"

// Threshold keeps elements above threshold and sets the others to value:
// torch.nn.functional.threshold.
func Threshold(input torch.Tensor, threshold, value float64) torch.Tensor {
	return call("aten::threshold", input, threshold, value)
}

// ReLU6 is min(max(0, input), 6): torch.nn.functional.relu6.
func ReLU6(input torch.Tensor) torch.Tensor { return call("aten::relu6", input) }

// Hardtanh limits input to [low, high]: torch.nn.functional.hardtanh, whose defaults are -1 and 1.
func Hardtanh(input torch.Tensor, low, high float64) torch.Tensor {
	if low > high {
		panic(torch.Errorf("functional.Hardtanh", torch.ErrValue, "want low <= high, found %g and %g", low, high))
	}
	return call("aten::hardtanh", input, low, high)
}

// Hardswish is input * relu6(input+3) / 6: torch.nn.functional.hardswish.
func Hardswish(input torch.Tensor) torch.Tensor { return call("aten::hardswish", input) }

// Hardsigmoid is relu6(input+3) / 6: torch.nn.functional.hardsigmoid.
func Hardsigmoid(input torch.Tensor) torch.Tensor { return call("aten::hardsigmoid", input) }

// ELU is input where input is positive and alpha*(exp(input)-1) elsewhere:
// torch.nn.functional.elu, whose default alpha is 1.
func ELU(input torch.Tensor, alpha float64) torch.Tensor { return call("aten::elu", input, alpha) }

// CELU is max(0, input) + min(0, alpha*(exp(input/alpha)-1)): torch.nn.functional.celu, whose
// default alpha is 1.
func CELU(input torch.Tensor, alpha float64) torch.Tensor { return call("aten::celu", input, alpha) }

// SELU is [ELU] scaled so that layers preserve mean and variance: torch.nn.functional.selu.
func SELU(input torch.Tensor) torch.Tensor { return call("aten::selu", input) }

// Mish is input * tanh(softplus(input)): torch.nn.functional.mish.
func Mish(input torch.Tensor) torch.Tensor { return call("aten::mish", input) }

// PReLU is input where input is positive and weight*input elsewhere; weight has one number, or one
// per channel: torch.nn.functional.prelu.
func PReLU(input, weight torch.Tensor) torch.Tensor { return call("aten::prelu", input, weight) }

// RReLU is [LeakyReLU] with a slope drawn from [lower, upper] for every element while training,
// and with their mean otherwise: torch.nn.functional.rrelu, whose defaults are 1/8, 1/3 and false.
func RReLU(input torch.Tensor, lower, upper float64, training bool) torch.Tensor {
	return call("aten::rrelu", input, lower, upper, training)
}

// GLU is the first half of input along dim times the sigmoid of the second:
// torch.nn.functional.glu, whose default dim is -1.
func GLU(input torch.Tensor, dim int64) torch.Tensor { return call("aten::glu", input, dim) }

// LogSigmoid is log(1 / (1 + exp(-input))): torch.nn.functional.logsigmoid.
func LogSigmoid(input torch.Tensor) torch.Tensor { return call("aten::log_sigmoid", input) }

// Softsign is input / (1 + |input|): torch.nn.functional.softsign.
func Softsign(input torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor { return input.Div(input.Abs().AddScalar(1)) })
}

// Tanhshrink is input - tanh(input): torch.nn.functional.tanhshrink.
func Tanhshrink(input torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor { return input.Sub(input.Tanh()) })
}

// Softshrink moves input towards 0 by lambda, and to 0 if it is closer than that:
// torch.nn.functional.softshrink, whose default lambda is 0.5.
func Softshrink(input torch.Tensor, lambda float64) torch.Tensor {
	return call("aten::softshrink", input, lambda)
}

// Hardshrink sets elements within lambda of 0 to 0: torch.nn.functional.hardshrink, whose default
// lambda is 0.5.
func Hardshrink(input torch.Tensor, lambda float64) torch.Tensor {
	return call("aten::hardshrink", input, lambda)
}

// SoftplusWith is [Softplus] sharpened by beta, log(1 + exp(beta*input)) / beta, and input itself
// where beta*input is above threshold: torch.nn.functional.softplus, whose defaults are 1 and 20.
func SoftplusWith(input torch.Tensor, beta, threshold float64) torch.Tensor {
	return input.Softplus(beta, threshold)
}

// Softmin is [Softmax] of -input: torch.nn.functional.softmin.
func Softmin(input torch.Tensor, dim int64) torch.Tensor {
	return torch.Return(func() torch.Tensor { return input.Neg().Softmax(dim, torch.DefaultDType) })
}

// GumbelSoftmax draws from the Gumbel-Softmax distribution along dim at temperature tau, after
// Jang et al. (2016): torch.nn.functional.gumbel_softmax, whose defaults are 1, false and -1. If
// hard is set, the samples are one-hot, with the gradients of the soft ones.
func GumbelSoftmax(logits torch.Tensor, tau float64, hard bool, dim int64) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		gumbels := call("aten::exponential", logits.Detach().EmptyLike()).Log().Neg()
		soft := logits.Add(gumbels).DivScalar(tau).Softmax(dim, torch.DefaultDType)
		if !hard {
			return soft
		}
		_, index := soft.MaxDim(dim, true)
		oneHot := call("aten::scatter.value", logits.Detach().ZerosLike(), dim, index, 1.0)
		return oneHot.Sub(soft.Detach()).Add(soft)
	})
}
