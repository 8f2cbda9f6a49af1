package functional

import "github.com/gotrainer/gotrainer/torch"

// PairwiseDistance is the p-norm of x1 - x2 + eps along the last dimension:
// torch.nn.functional.pairwise_distance, whose defaults are 2, 1e-6 and false.
func PairwiseDistance(x1, x2 torch.Tensor, p, eps float64, keepDim bool) torch.Tensor {
	return call("aten::pairwise_distance", x1, x2, p, eps, keepDim)
}

// PDist is the p-norm of the difference of every two rows, as a vector: torch.nn.functional.pdist,
// whose default p is 2.
func PDist(input torch.Tensor, p float64) torch.Tensor {
	out := call("aten::pdist", input, p)
	if input.Size(0) > 0 || !out.NeedsGrad() {
		return out
	}
	// With zero rows, libtorch's gradient reads invalid memory, which kills the process.
	out.Free()
	return input.SumDim([]int64{1}, false, torch.DefaultDType)
}

// CDist is the p-norm of the difference between every row of x1, [..., P, M], and every row of x2,
// [..., R, M]: torch.cdist, whose default p is 2.
func CDist(x1, x2 torch.Tensor, p float64) torch.Tensor { return call("aten::cdist", x1, x2, p, nil) }
