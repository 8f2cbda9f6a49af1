package nn

import (
	"cmp"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// The losses as modules, for models that contain their loss; package functional has them as
// functions. Losses with weights are used by pointer, because the weights belong to the module's
// state, as in PyTorch.

// CrossEntropyLoss compares logits with class indices or probabilities: torch.nn.CrossEntropyLoss.
type CrossEntropyLoss struct {
	Weight         torch.Tensor         `buffer:"weight"` // a factor per class, [C]; undefined means 1
	IgnoreIndex    *int64               // targets of this class are ignored; nil means -100
	Reduction      functional.Reduction // zero means functional.Mean
	LabelSmoothing float64              // share of the target that is spread over all classes
}

// Forward takes logits, [N, C, ...] or [C], and either class indices, [N, ...] or [], or
// probabilities with the shape of the logits.
func (l *CrossEntropyLoss) Forward(input, target torch.Tensor) torch.Tensor {
	return functional.CrossEntropyWith(input, target, functional.CrossEntropyOptions{Weight: l.Weight,
		IgnoreIndex: l.IgnoreIndex, Reduction: l.Reduction, LabelSmoothing: l.LabelSmoothing})
}

// NLLLoss compares log-probabilities with class indices: torch.nn.NLLLoss.
type NLLLoss struct {
	Weight      torch.Tensor         `buffer:"weight"` // a factor per class, [C]; undefined means 1
	IgnoreIndex *int64               // targets of this class are ignored; nil means -100
	Reduction   functional.Reduction // zero means functional.Mean
}

// Forward takes log-probabilities, [N, C, ...] or [C], and class indices, [N, ...] or [].
func (l *NLLLoss) Forward(input, target torch.Tensor) torch.Tensor {
	return functional.NLLLossWith(input, target, functional.NLLLossOptions{Weight: l.Weight, IgnoreIndex: l.IgnoreIndex,
		Reduction: l.Reduction})
}

// BCELoss compares probabilities with targets in [0, 1]: torch.nn.BCELoss.
type BCELoss struct {
	Weight    torch.Tensor         `buffer:"weight"` // a factor per element, broadcasting; undefined means 1
	Reduction functional.Reduction // zero means functional.Mean
}

// Forward takes two tensors of the same shape.
func (l *BCELoss) Forward(input, target torch.Tensor) torch.Tensor {
	return functional.BinaryCrossEntropy(input, target, functional.BCELossOptions{Weight: l.Weight,
		Reduction: l.Reduction})
}

// BCEWithLogitsLoss compares logits with targets in [0, 1]: torch.nn.BCEWithLogitsLoss.
type BCEWithLogitsLoss struct {
	Weight torch.Tensor `buffer:"weight"` // a factor per element, broadcasting; undefined means 1
	// a factor for positive targets, broadcasting; undefined means 1
	PosWeight torch.Tensor         `buffer:"pos_weight"`
	Reduction functional.Reduction // zero means functional.Mean
}

// Forward takes two tensors of the same shape.
func (l *BCEWithLogitsLoss) Forward(input, target torch.Tensor) torch.Tensor {
	return functional.BCEWithLogitsWith(input, target, functional.BCEWithLogitsOptions{Weight: l.Weight,
		PosWeight: l.PosWeight, Reduction: l.Reduction})
}

// MSELoss is the mean squared difference: torch.nn.MSELoss.
type MSELoss struct {
	Reduction functional.Reduction // zero means functional.Mean
}

// Forward takes two tensors, broadcasting.
func (l MSELoss) Forward(input, target torch.Tensor) torch.Tensor {
	return functional.MSELoss(input, target, l.Reduction)
}

// L1Loss is the mean absolute difference: torch.nn.L1Loss.
type L1Loss struct {
	Reduction functional.Reduction // zero means functional.Mean
}

// Forward takes two tensors, broadcasting.
func (l L1Loss) Forward(input, target torch.Tensor) torch.Tensor {
	return functional.L1Loss(input, target, l.Reduction)
}

// SmoothL1Loss is quadratic below Beta and linear above: torch.nn.SmoothL1Loss.
type SmoothL1Loss struct {
	Reduction functional.Reduction // zero means functional.Mean
	Beta      *float64             // nil means 1; 0 is [L1Loss]
}

// Forward takes two tensors, broadcasting.
func (l SmoothL1Loss) Forward(input, target torch.Tensor) torch.Tensor {
	return functional.SmoothL1Loss(input, target, l.Reduction, optional.Or(l.Beta, 1))
}

// HuberLoss is quadratic below Delta and linear above: torch.nn.HuberLoss.
type HuberLoss struct {
	Reduction functional.Reduction // zero means functional.Mean
	Delta     float64              // zero means 1
}

// Forward takes two tensors, broadcasting.
func (l HuberLoss) Forward(input, target torch.Tensor) torch.Tensor {
	return functional.HuberLoss(input, target, l.Reduction, cmp.Or(l.Delta, 1))
}

// KLDivLoss is the Kullback-Leibler divergence of target distributions from log-probabilities:
// torch.nn.KLDivLoss.
type KLDivLoss struct {
	// zero means functional.Mean, over all elements; the divergence itself is functional.BatchMean
	Reduction functional.Reduction
	LogTarget bool // targets are log-probabilities too
}

// Forward takes two tensors of the same shape.
func (l KLDivLoss) Forward(input, target torch.Tensor) torch.Tensor {
	return functional.KLDiv(input, target, l.Reduction, l.LogTarget)
}

// PoissonNLLLoss is the negative log-likelihood of counts: torch.nn.PoissonNLLLoss.
type PoissonNLLLoss struct {
	functional.PoissonNLLLossOptions
}

// Forward takes two tensors of the same shape.
func (l PoissonNLLLoss) Forward(input, target torch.Tensor) torch.Tensor {
	return functional.PoissonNLLLoss(input, target, l.PoissonNLLLossOptions)
}

// GaussianNLLLoss is the negative log-likelihood of normal distributions: torch.nn.GaussianNLLLoss.
type GaussianNLLLoss struct {
	functional.GaussianNLLLossOptions
}

// Forward takes means, targets of the same shape, and variances of that shape, or without the last
// dimension, or with 1 in one dimension.
func (l GaussianNLLLoss) Forward(input, target, variance torch.Tensor) torch.Tensor {
	return functional.GaussianNLLLoss(input, target, variance, l.GaussianNLLLossOptions)
}

// CTCLoss is the connectionist temporal classification loss: torch.nn.CTCLoss.
type CTCLoss struct {
	functional.CTCLossOptions
}

// Forward takes log-probabilities, [T, N, C] or [T, C], targets, [N, S] or concatenated, and the
// int64 lengths of both, [N].
func (l CTCLoss) Forward(logProbs, targets, inputLengths, targetLengths torch.Tensor) torch.Tensor {
	return functional.CTCLoss(logProbs, targets, inputLengths, targetLengths, l.CTCLossOptions)
}
