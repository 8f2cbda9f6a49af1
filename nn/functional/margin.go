package functional

import (
	"cmp"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/torch"
)

// SoftMarginLoss is log(1 + exp(-target*input)) for targets of 1 and -1:
// torch.nn.functional.soft_margin_loss.
func SoftMarginLoss(input, target torch.Tensor, r Reduction) torch.Tensor {
	return call("aten::soft_margin_loss", input, target, r.code("SoftMarginLoss"))
}

// HingeEmbeddingLoss is input where target is 1, and max(0, margin - input) where it is -1:
// torch.nn.functional.hinge_embedding_loss, whose default margin is 1.
func HingeEmbeddingLoss(input, target torch.Tensor, r Reduction, margin float64) torch.Tensor {
	return call("aten::hinge_embedding_loss", input, target, margin, r.code("HingeEmbeddingLoss"))
}

// MarginRankingLoss is max(0, -target*(input1-input2) + margin):
// torch.nn.functional.margin_ranking_loss, whose default margin is 0. A target of 1 says that
// input1 should be larger, -1 that input2 should be.
func MarginRankingLoss(input1, input2, target torch.Tensor, r Reduction, margin float64) torch.Tensor {
	if a, b, c := input1.Dim(), input2.Dim(), target.Dim(); a != b || a != c {
		panic(torch.Errorf("functional.MarginRankingLoss", torch.ErrInvalid,
			"want the same number of dimensions, found %v, %v and %v",
			input1.Shape(), input2.Shape(), target.Shape()))
	}
	return call("aten::margin_ranking_loss", input1, input2, target, margin, r.code("MarginRankingLoss"))
}

// CosineEmbeddingLoss is 1 - cos(input1, input2) where target is 1, and max(0, cos(input1, input2)
// - margin) where it is -1: torch.nn.functional.cosine_embedding_loss, whose default margin is 0.
func CosineEmbeddingLoss(input1, input2, target torch.Tensor, r Reduction, margin float64) torch.Tensor {
	return call("aten::cosine_embedding_loss", input1, input2, target, margin, r.code("CosineEmbeddingLoss"))
}

// MultiMarginLossOptions are the keywords of torch.nn.functional.multi_margin_loss. The zero value
// means PyTorch's defaults.
type MultiMarginLossOptions struct {
	P         int64        // the exponent, 1 or 2; zero means 1
	Margin    *float64     // nil means 1
	Weight    torch.Tensor // a factor per class, [C]; undefined means 1
	Reduction Reduction    // zero means Mean
}

// MultiMarginLoss is the hinge loss of class indices: max(0, margin - input[target] + input[i])^p
// over the other classes i, divided by their number: torch.nn.functional.multi_margin_loss.
func MultiMarginLoss(input, target torch.Tensor, o MultiMarginLossOptions) torch.Tensor {
	const op = "MultiMarginLoss"
	p := cmp.Or(o.P, 1)
	if p != 1 && p != 2 {
		panic(torch.Errorf("functional."+op, torch.ErrValue, "P must be 1 or 2, found %d", p))
	}
	return ofRows(op, input, o.Reduction, func(r Reduction) torch.Tensor {
		return call("aten::multi_margin_loss", input, target, p, optional.Or(o.Margin, 1), o.Weight, r.code(op))
	})
}

// MultiLabelMarginLoss is the hinge loss of several classes per example. target, of the same shape
// as input, holds their indices followed by -1: torch.nn.functional.multilabel_margin_loss.
func MultiLabelMarginLoss(input, target torch.Tensor, r Reduction) torch.Tensor {
	const op = "MultiLabelMarginLoss"
	return ofRows(op, input, r, func(r Reduction) torch.Tensor {
		return call("aten::multilabel_margin_loss", input, target, r.code(op))
	})
}

// ofRows computes a loss that libtorch, for an input without rows, would reduce to uninitialised
// memory. In that case it reduces the loss itself.
func ofRows(op string, input torch.Tensor, r Reduction, loss func(Reduction) torch.Tensor) torch.Tensor {
	if input.Dim() == 2 && input.Size(0) == 0 {
		return torch.Return(func() torch.Tensor { return r.reduce(op, loss(None)) })
	}
	return loss(r)
}

// MultiLabelSoftMarginLoss is the mean over the classes of binary cross entropies of logits:
// torch.nn.functional.multilabel_soft_margin_loss. weight, a factor per class, may be undefined.
func MultiLabelSoftMarginLoss(input, target, weight torch.Tensor, r Reduction) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		loss := target.Mul(LogSigmoid(input)).Add(target.RSubScalar(1).Mul(LogSigmoid(input.Neg()))).Neg()
		if weight.Defined() {
			loss = loss.Mul(weight)
		}
		loss = loss.SumDim([]int64{-1}, false, torch.DefaultDType).DivScalar(input.Size(-1))
		return r.reduce("MultiLabelSoftMarginLoss", loss)
	})
}

// TripletMarginLossOptions are the keywords of torch.nn.functional.triplet_margin_loss. The zero
// value means PyTorch's defaults.
type TripletMarginLossOptions struct {
	Margin float64 // zero means 1
	P      float64 // p of the norm; zero means 2
	Eps    float64 // added to the differences; zero means 1e-6
	// use the distance between positive and negative if it is smaller than that between anchor and
	// negative
	Swap      bool
	Reduction Reduction // zero means Mean
}

// TripletMarginLoss is max(0, |anchor-positive| - |anchor-negative| + margin):
// torch.nn.functional.triplet_margin_loss.
func TripletMarginLoss(anchor, positive, negative torch.Tensor, o TripletMarginLossOptions) torch.Tensor {
	const op = "TripletMarginLoss"
	margin := positiveMargin(op, o.Margin)
	return call("aten::triplet_margin_loss", anchor, positive, negative, margin, cmp.Or(o.P, 2), cmp.Or(o.Eps, 1e-6),
		o.Swap,
		o.Reduction.code(op))
}

// TripletMarginWithDistanceLossOptions are the keywords of
// torch.nn.functional.triplet_margin_with_distance_loss. The zero value means PyTorch's defaults.
type TripletMarginWithDistanceLossOptions struct {
	Distance func(a, b torch.Tensor) torch.Tensor // nil means PairwiseDistance
	Margin   float64                              // zero means 1
	// use the distance between positive and negative if it is smaller than that between anchor and
	// negative
	Swap      bool
	Reduction Reduction // zero means Mean
}

// TripletMarginWithDistanceLoss is [TripletMarginLoss] with a custom distance:
// torch.nn.functional.triplet_margin_with_distance_loss.
func TripletMarginWithDistanceLoss(anchor, positive, negative torch.Tensor,
	o TripletMarginWithDistanceLossOptions) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		const op = "TripletMarginWithDistanceLoss"
		margin := positiveMargin(op, o.Margin)
		if a, p, n := anchor.Dim(), positive.Dim(), negative.Dim(); a != p || p != n {
			panic(torch.Errorf("functional."+op, torch.ErrInvalid, "want the same number of dimensions, found %v, %v "+
				"and %v",
				anchor.Shape(), positive.Shape(), negative.Shape()))
		}
		distance := o.Distance
		if distance == nil {
			distance = func(a, b torch.Tensor) torch.Tensor { return PairwiseDistance(a, b, 2, 1e-6, false) }
		}
		near, far := distance(anchor, positive), distance(anchor, negative)
		if o.Swap {
			far = far.Minimum(distance(positive, negative))
		}
		return o.Reduction.reduce(op, near.AddScalar(margin).Sub(far).Clamp(0, nil))
	})
}

func positiveMargin(op string, margin float64) float64 {
	if margin = cmp.Or(margin, 1); !(margin > 0) {
		panic(torch.Errorf("functional."+op, torch.ErrValue, "Margin must be positive, found %g", margin))
	}
	return margin
}
