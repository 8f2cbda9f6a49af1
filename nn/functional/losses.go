package functional

import (
	"slices"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/torch"
)

// Reduction says how a loss combines the losses of the elements. The zero value is PyTorch's
// default.
type Reduction int

// The reductions.
const (
	Mean      Reduction = iota // their mean, over those that are not ignored
	Sum                        // their sum
	None                       // no reduction: one loss per element
	BatchMean                  // their sum divided by the batch's size, for [KLDiv]
)

func (r Reduction) torch(op string) torch.Reduction {
	switch r {
	case Mean:
		return torch.ReductionMean
	case Sum:
		return torch.ReductionSum
	case None:
		return torch.ReductionNone
	}
	if r == BatchMean {
		panic(torch.Errorf("functional."+op, torch.ErrValue, "BatchMean is for KLDiv; want Mean, Sum or None"))
	}
	panic(torch.Errorf("functional."+op, torch.ErrValue, "the reduction %d is not known; want Mean, Sum or None", r))
}

// code returns libtorch's number of the reduction, for operators called by name.
func (r Reduction) code(op string) int64 { return int64(r.torch(op)) }

// reduce applies the reduction as libtorch's kernels do, for losses composed of other operators.
func (r Reduction) reduce(op string, loss torch.Tensor) torch.Tensor {
	switch r.torch(op) {
	case torch.ReductionMean:
		return loss.Mean(torch.DefaultDType)
	case torch.ReductionSum:
		return loss.Sum(torch.DefaultDType)
	}
	return loss
}

// defaultIgnoreIndex is the class that is ignored by default, as in PyTorch.
const defaultIgnoreIndex = -100

// CrossEntropyOptions are the keywords of torch.nn.functional.cross_entropy. The zero value means
// PyTorch's defaults.
type CrossEntropyOptions struct {
	Weight         torch.Tensor // a factor per class, [C]; undefined means 1
	IgnoreIndex    *int64       // targets of this class are ignored; nil means -100
	Reduction      Reduction    // zero means Mean
	LabelSmoothing float64      // share of the target that is spread over all classes
}

// CrossEntropy compares logits, [N, C] or [N, C, ...] or [C], with class indices or with
// probabilities of the same shape as input: the mean of torch.nn.functional.cross_entropy.
// [CrossEntropyWith] takes its keywords.
func CrossEntropy(input, target torch.Tensor) torch.Tensor {
	return CrossEntropyWith(input, target, CrossEntropyOptions{})
}

// CrossEntropyWeighted is [CrossEntropy] with a factor per class.
func CrossEntropyWeighted(input, target, weight torch.Tensor) torch.Tensor {
	return CrossEntropyWith(input, target, CrossEntropyOptions{Weight: weight})
}

// CrossEntropyWith is [CrossEntropy] with options.
func CrossEntropyWith(input, target torch.Tensor, o CrossEntropyOptions) torch.Tensor {
	return input.CrossEntropyLoss(target, o.Weight, o.Reduction.torch("CrossEntropy"),
		optional.Or(o.IgnoreIndex, defaultIgnoreIndex), o.LabelSmoothing)
}

// NLLLossOptions are the keywords of torch.nn.functional.nll_loss. The zero value means PyTorch's
// defaults.
type NLLLossOptions struct {
	Weight      torch.Tensor // a factor per class, [C]; undefined means 1
	IgnoreIndex *int64       // targets of this class are ignored; nil means -100
	Reduction   Reduction    // zero means Mean
}

// NLLLoss compares log-probabilities, [N, C] or [N, C, ...] or [C], with class indices: the mean of
// torch.nn.functional.nll_loss.
func NLLLoss(input, target torch.Tensor) torch.Tensor {
	return NLLLossWith(input, target, NLLLossOptions{})
}

// NLLLossWith is [NLLLoss] with options.
func NLLLossWith(input, target torch.Tensor, o NLLLossOptions) torch.Tensor {
	return torch.Call("aten::nll_loss_nd", input, target, o.Weight, int64(o.Reduction.torch("NLLLoss")),
		optional.Or(o.IgnoreIndex, defaultIgnoreIndex))[0]
}

// MSELoss is the mean of the squared differences, broadcasting, or what r says instead of the
// mean: torch.nn.functional.mse_loss.
func MSELoss(input, target torch.Tensor, r Reduction) torch.Tensor {
	return broadcasting(input, target, func(x, y torch.Tensor) torch.Tensor { return x.MSELoss(y, r.torch("MSELoss")) })
}

// L1Loss is the mean of the absolute differences, broadcasting, or what r says instead of the
// mean: torch.nn.functional.l1_loss.
func L1Loss(input, target torch.Tensor, r Reduction) torch.Tensor {
	return broadcasting(input, target, func(x, y torch.Tensor) torch.Tensor { return x.L1Loss(y, r.torch("L1Loss")) })
}

// SmoothL1Loss is quadratic below beta and linear above: torch.nn.functional.smooth_l1_loss, whose
// default beta is 1.
func SmoothL1Loss(input, target torch.Tensor, r Reduction, beta float64) torch.Tensor {
	return broadcasting(input, target, func(x, y torch.Tensor) torch.Tensor {
		if beta == 0 { // libtorch's kernel would divide by beta; PyTorch's function avoids that, too
			return x.L1Loss(y, r.torch("SmoothL1Loss"))
		}
		return call("aten::smooth_l1_loss", x, y, r.code("SmoothL1Loss"), beta)
	})
}

// HuberLoss is quadratic below delta and linear above: torch.nn.functional.huber_loss, whose
// default delta is 1.
func HuberLoss(input, target torch.Tensor, r Reduction, delta float64) torch.Tensor {
	return broadcasting(input, target, func(x, y torch.Tensor) torch.Tensor {
		return call("aten::huber_loss", x, y, r.code("HuberLoss"), delta)
	})
}

// KLDiv is the divergence of the distributions target from the log-probabilities input:
// torch.nn.functional.kl_div. Mean is the mean over all elements, as PyTorch's "mean"; use
// [BatchMean] for the divergence itself. With logTarget, the targets are log-probabilities too.
func KLDiv(input, target torch.Tensor, r Reduction, logTarget bool) torch.Tensor {
	if r == BatchMean {
		if input.Dim() == 0 {
			panic(torch.Errorf("functional.KLDiv", torch.ErrInvalid, "BatchMean needs a batch dimension, found none"))
		}
		sum := call("aten::kl_div", input, target, int64(torch.ReductionSum), logTarget)
		defer sum.Free()
		return sum.DivScalar(input.Size(0))
	}
	return torch.Call("aten::kl_div", input, target, int64(r.torch("KLDiv")), logTarget)[0]
}

// broadcasting calls a loss with both tensors broadcast to their common shape, so that the mean is
// taken over its elements.
func broadcasting(a, b torch.Tensor, loss func(a, b torch.Tensor) torch.Tensor) torch.Tensor {
	if slices.Equal(a.Shape(), b.Shape()) {
		return loss(a, b)
	}
	return torch.Return(func() torch.Tensor { return loss(broadcast(a, b)) })
}

// broadcast expands both tensors to their common shape.
func broadcast(a, b torch.Tensor) (torch.Tensor, torch.Tensor) {
	both := torch.Call("aten::broadcast_tensors", []torch.Tensor{a, b})
	return both[0], both[1]
}

// BCEWithLogitsOptions are the keywords of torch.nn.functional.binary_cross_entropy_with_logits.
// The zero value means PyTorch's defaults.
type BCEWithLogitsOptions struct {
	Weight    torch.Tensor // a factor per element, broadcasting; undefined means 1
	PosWeight torch.Tensor // a factor for positive targets per class, broadcasting; undefined means 1
	Reduction Reduction    // zero means Mean
}

// BCEWithLogits compares logits with probabilities of the same shape: the mean of
// torch.nn.functional.binary_cross_entropy_with_logits.
func BCEWithLogits(input, target torch.Tensor) torch.Tensor {
	return BCEWithLogitsWith(input, target, BCEWithLogitsOptions{})
}

// BCEWithLogitsWith is [BCEWithLogits] with options.
func BCEWithLogitsWith(input, target torch.Tensor, o BCEWithLogitsOptions) torch.Tensor {
	// libtorch would broadcast, which is almost certainly not intended.
	if a, b := input.Shape(), target.Shape(); !slices.Equal(a, b) {
		panic(torch.Errorf("functional.BCEWithLogits", torch.ErrInvalid, "want a target in the shape of the input, "+
			"%v, found %v", a, b))
	}
	return input.BinaryCrossEntropyWithLogits(target, o.Weight, o.PosWeight, o.Reduction.torch("BCEWithLogits"))
}

// CTCLossOptions are the keywords of torch.nn.functional.ctc_loss. The zero value means PyTorch's
// defaults.
type CTCLossOptions struct {
	Blank        int64     // the class of the blank
	Reduction    Reduction // zero means Mean: each loss is divided by its target's length first
	ZeroInfinity bool      // infinite losses, of targets too long for their input, become 0 and so do their gradients
}

// CTCLoss is the connectionist temporal classification loss of log-probabilities, [T, N, C] or [T,
// C], against targets, [N, S] or concatenated, with the int64 lengths of inputs and targets, [N]:
// torch.nn.functional.ctc_loss.
func CTCLoss(logProbs, targets, inputLengths, targetLengths torch.Tensor, o CTCLossOptions) torch.Tensor {
	return logProbs.CTCLoss(targets, inputLengths, targetLengths, o.Blank, o.Reduction.torch("CTCLoss"), o.ZeroInfinity)
}
