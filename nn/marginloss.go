package nn

import (
	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// SoftMarginLoss is log(1 + exp(-target*input)) for targets of 1 and -1: torch.nn.SoftMarginLoss.
type SoftMarginLoss struct {
	Reduction functional.Reduction // zero means functional.Mean
}

// Forward takes two tensors of the same shape.
func (l SoftMarginLoss) Forward(input, target torch.Tensor) torch.Tensor {
	return functional.SoftMarginLoss(input, target, l.Reduction)
}

// HingeEmbeddingLoss is input where target is 1, and max(0, Margin - input) where it is -1:
// torch.nn.HingeEmbeddingLoss.
type HingeEmbeddingLoss struct {
	Reduction functional.Reduction // zero means functional.Mean
	Margin    *float64             // nil means 1
}

// Forward takes two tensors of the same shape.
func (l HingeEmbeddingLoss) Forward(input, target torch.Tensor) torch.Tensor {
	return functional.HingeEmbeddingLoss(input, target, l.Reduction, optional.Or(l.Margin, 1))
}

// MarginRankingLoss is max(0, -target*(input1-input2) + Margin): torch.nn.MarginRankingLoss.
type MarginRankingLoss struct {
	Reduction functional.Reduction // zero means functional.Mean
	Margin    float64
}

// Forward takes three tensors of the same shape. A target of 1 says that input1 should be larger,
// -1 that input2 should be.
func (l MarginRankingLoss) Forward(input1, input2, target torch.Tensor) torch.Tensor {
	return functional.MarginRankingLoss(input1, input2, target, l.Reduction, l.Margin)
}

// CosineEmbeddingLoss is 1 - cos(input1, input2) where target is 1, and max(0, cos(input1, input2)
// - Margin) where it is -1: torch.nn.CosineEmbeddingLoss.
type CosineEmbeddingLoss struct {
	Reduction functional.Reduction // zero means functional.Mean
	Margin    float64
}

// Forward takes [N, D], [N, D] and [N], or [D], [D] and [].
func (l CosineEmbeddingLoss) Forward(input1, input2, target torch.Tensor) torch.Tensor {
	return functional.CosineEmbeddingLoss(input1, input2, target, l.Reduction, l.Margin)
}

// MultiMarginLoss is the hinge loss of class indices: torch.nn.MultiMarginLoss.
type MultiMarginLoss struct {
	P         int64                // the exponent, 1 or 2; zero means 1
	Margin    *float64             // nil means 1
	Weight    torch.Tensor         `buffer:"weight"` // a factor per class, [C]; undefined means 1
	Reduction functional.Reduction // zero means functional.Mean
}

// Forward takes scores, [N, C] or [C], and class indices, [N] or [].
func (l *MultiMarginLoss) Forward(input, target torch.Tensor) torch.Tensor {
	return functional.MultiMarginLoss(input, target, functional.MultiMarginLossOptions{P: l.P, Margin: l.Margin,
		Weight: l.Weight, Reduction: l.Reduction})
}

// MultiLabelMarginLoss is the hinge loss of several classes per example:
// torch.nn.MultiLabelMarginLoss.
type MultiLabelMarginLoss struct {
	Reduction functional.Reduction // zero means functional.Mean
}

// Forward takes scores, [N, C] or [C], and class indices of the same shape, with -1 after the last
// one.
func (l MultiLabelMarginLoss) Forward(input, target torch.Tensor) torch.Tensor {
	return functional.MultiLabelMarginLoss(input, target, l.Reduction)
}

// MultiLabelSoftMarginLoss is the mean over the classes of binary cross entropies of logits:
// torch.nn.MultiLabelSoftMarginLoss.
type MultiLabelSoftMarginLoss struct {
	Weight    torch.Tensor         `buffer:"weight"` // a factor per class, [C]; undefined means 1
	Reduction functional.Reduction // zero means functional.Mean
}

// Forward takes logits, [N, C] or [C], and targets of the same shape.
func (l *MultiLabelSoftMarginLoss) Forward(input, target torch.Tensor) torch.Tensor {
	return functional.MultiLabelSoftMarginLoss(input, target, l.Weight, l.Reduction)
}

// TripletMarginLoss is max(0, |anchor-positive| - |anchor-negative| + Margin):
// torch.nn.TripletMarginLoss.
type TripletMarginLoss struct {
	functional.TripletMarginLossOptions
}

// Forward takes three tensors, [N, D] or [D].
func (l TripletMarginLoss) Forward(anchor, positive, negative torch.Tensor) torch.Tensor {
	return functional.TripletMarginLoss(anchor, positive, negative, l.TripletMarginLossOptions)
}

// TripletMarginWithDistanceLoss is [TripletMarginLoss] with your own distance:
// torch.nn.TripletMarginWithDistanceLoss.
type TripletMarginWithDistanceLoss struct {
	functional.TripletMarginWithDistanceLossOptions
}

// Forward takes three tensors that the distance accepts.
func (l TripletMarginWithDistanceLoss) Forward(anchor, positive, negative torch.Tensor) torch.Tensor {
	return functional.TripletMarginWithDistanceLoss(anchor, positive, negative, l.TripletMarginWithDistanceLossOptions)
}
