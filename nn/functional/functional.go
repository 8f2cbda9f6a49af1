// Package functional has the layers without state and the losses as functions: torch.nn.functional,
// with its argument order and defaults.
//
//	loss := functional.CrossEntropy(logits, labels)
//	loss = functional.CrossEntropyWith(logits, labels, functional.CrossEntropyOptions{LabelSmoothing: 0.1})
//
// A function with many keywords has a second form, With, that takes them as a struct; its zero
// value means PyTorch's defaults. Mistakes in shapes and dtypes panic with a [torch.Error].
package functional

import "github.com/gotrainer/gotrainer/torch"

// Linear computes input·weightᵀ + bias: torch.nn.functional.linear. bias may be undefined.
func Linear(input, weight, bias torch.Tensor) torch.Tensor { return input.Linear(weight, bias) }

// Embedding looks up rows of weight: torch.nn.functional.embedding.
func Embedding(input, weight torch.Tensor) torch.Tensor { return input.Embedding(weight, -1) }

// LayerNorm normalises over the last dimensions, of sizes shape: torch.nn.functional.layer_norm,
// whose default eps is 1e-5. weight and bias may be undefined.
func LayerNorm(input torch.Tensor, shape []int64, weight, bias torch.Tensor, eps float64) torch.Tensor {
	return input.LayerNorm(shape, weight, bias, eps)
}

// ReLU is max(0, input): torch.nn.functional.relu.
func ReLU(input torch.Tensor) torch.Tensor { return input.ReLU() }

// LeakyReLU is input where input is positive and negativeSlope*input elsewhere:
// torch.nn.functional.leaky_relu, whose default slope is 0.01.
func LeakyReLU(input torch.Tensor, negativeSlope float64) torch.Tensor {
	return input.LeakyReLU(negativeSlope)
}

// GELU is the Gaussian error linear unit in its exact form: torch.nn.functional.gelu.
func GELU(input torch.Tensor) torch.Tensor { return input.GELU("none") }

// GELUTanh is the approximation of [GELU] by tanh: torch.nn.functional.gelu(approximate="tanh").
func GELUTanh(input torch.Tensor) torch.Tensor { return input.GELU("tanh") }

// SiLU is input * sigmoid(input): torch.nn.functional.silu.
func SiLU(input torch.Tensor) torch.Tensor { return input.SiLU() }

// Sigmoid is 1 / (1 + exp(-input)): torch.nn.functional.sigmoid.
func Sigmoid(input torch.Tensor) torch.Tensor { return input.Sigmoid() }

// Tanh is the hyperbolic tangent: torch.nn.functional.tanh.
func Tanh(input torch.Tensor) torch.Tensor { return input.Tanh() }

// Softplus is log(1 + exp(input)): torch.nn.functional.softplus.
func Softplus(input torch.Tensor) torch.Tensor { return input.Softplus(1, 20) }

// Softmax scales exp(input) to a sum of 1 along dim: torch.nn.functional.softmax.
func Softmax(input torch.Tensor, dim int64) torch.Tensor {
	return input.Softmax(dim, torch.DefaultDType)
}

// LogSoftmax is the logarithm of [Softmax], computed more accurately:
// torch.nn.functional.log_softmax.
func LogSoftmax(input torch.Tensor, dim int64) torch.Tensor {
	return input.LogSoftmax(dim, torch.DefaultDType)
}

// Dropout zeroes elements with probability p while training and scales the others by 1/(1-p):
// torch.nn.functional.dropout, whose defaults are 0.5 and true.
func Dropout(input torch.Tensor, p float64, training bool) torch.Tensor {
	return input.Dropout(p, training)
}

// Normalize scales vectors along dim to a p-norm of 1; those shorter than eps are divided by eps:
// torch.nn.functional.normalize, whose defaults are 2, 1 and 1e-12.
func Normalize(input torch.Tensor, p float64, dim int64, eps float64) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		return input.Div(input.NormDim(p, []int64{dim}, true).Clamp(eps, nil).ExpandAs(input))
	})
}

// CosineSimilarity is the cosine of the angle between vectors along dim:
// torch.nn.functional.cosine_similarity, whose defaults are 1 and 1e-8.
func CosineSimilarity(x1, x2 torch.Tensor, dim int64, eps float64) torch.Tensor {
	return torch.Call("aten::cosine_similarity", x1, x2, dim, eps)[0]
}
