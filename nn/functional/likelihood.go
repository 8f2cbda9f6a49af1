package functional

import (
	"cmp"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// BCELossOptions are the keywords of torch.nn.functional.binary_cross_entropy. The zero value means
// PyTorch's defaults.
type BCELossOptions struct {
	Weight    torch.Tensor // a factor per element, broadcasting; undefined means 1
	Reduction Reduction    // zero means Mean
}

// BinaryCrossEntropy compares probabilities with targets in [0, 1] of the same shape:
// torch.nn.functional.binary_cross_entropy. Logarithms are limited to -100; [BCEWithLogits] is
// more accurate.
func BinaryCrossEntropy(input, target torch.Tensor, o BCELossOptions) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		const op = "BinaryCrossEntropy"
		if a, b := input.Shape(), target.Shape(); !slices.Equal(a, b) {
			panic(torch.Errorf("functional."+op, torch.ErrInvalid, "want a target in the shape of the input, %v, "+
				"found %v", a, b))
		}
		weight := o.Weight
		if weight.Defined() {
			_, weight = broadcast(target, weight)
		}
		return call("aten::binary_cross_entropy", input, target, weight, o.Reduction.code(op))
	})
}

// PoissonNLLLossOptions are the keywords of torch.nn.functional.poisson_nll_loss. The zero value
// means PyTorch's defaults.
type PoissonNLLLossOptions struct {
	NotLog    bool      // the input is the rate itself, not its logarithm: log_input=False
	Full      bool      // add Stirling's term, an approximation of log(target!)
	Eps       float64   // added to the rate before its logarithm, with NotLog; zero means 1e-8
	Reduction Reduction // zero means Mean
}

// PoissonNLLLoss is exp(input) - target*input, the negative log-likelihood of counts:
// torch.nn.functional.poisson_nll_loss.
func PoissonNLLLoss(input, target torch.Tensor, o PoissonNLLLossOptions) torch.Tensor {
	return call("aten::poisson_nll_loss", input, target, !o.NotLog, o.Full, cmp.Or(o.Eps, 1e-8),
		o.Reduction.code("PoissonNLLLoss"))
}

// GaussianNLLLossOptions are the keywords of torch.nn.functional.gaussian_nll_loss. The zero value
// means PyTorch's defaults.
type GaussianNLLLossOptions struct {
	Full      bool      // add the constant term
	Eps       float64   // the minimum variance; zero means 1e-6
	Reduction Reduction // zero means Mean
}

// GaussianNLLLoss is (log(variance) + (input-target)²/variance) / 2; variance has the shape of
// input, or lacks its last dimension, or has 1 in one dimension:
// torch.nn.functional.gaussian_nll_loss.
func GaussianNLLLoss(input, target, variance torch.Tensor, o GaussianNLLLossOptions) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		const op = "GaussianNLLLoss"
		in, v := input.Shape(), variance.Shape()
		switch differ := differences(in, v); {
		case len(v) == len(in)-1 && slices.Equal(in[:len(v)], v):
			variance = variance.Unsqueeze(-1)
		case len(v) != len(in) || len(differ) > 1 || len(differ) == 1 && v[differ[0]] != 1:
			panic(torch.Errorf("functional."+op, torch.ErrInvalid, "want a variance in the shape of the input, %v, "+
				"or without its last "+
				"dimension, or with 1 in one dimension, found %v", in, v))
		}
		if variance.LtScalar(0).Any().Item() != 0 {
			panic(torch.Errorf("functional."+op, torch.ErrValue, "the variance has negative numbers"))
		}
		// The clamp does not affect gradients: PyTorch applies it to a copy, outside of autograd.
		variance = variance.Clone()
		torch.NoGrad(func() { variance.Clamp_(cmp.Or(o.Eps, 1e-6), nil) })
		loss := variance.Log().Add(input.Sub(target).PowScalar(2).Div(variance)).MulScalar(0.5)
		if o.Full {
			loss = loss.AddScalar(0.5 * math.Log(2*math.Pi))
		}
		return o.Reduction.reduce(op, loss)
	})
}

// differences returns the dimensions in which two shapes of the same length differ.
func differences(a, b []int64) (at []int) {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			at = append(at, i)
		}
	}
	return at
}
