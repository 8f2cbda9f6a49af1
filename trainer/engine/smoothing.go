package engine

import "github.com/gotrainer/gotrainer/torch"

// IgnoreIndex is the label of positions that do not count: padding, and tokens without a target.
const IgnoreIndex = -100

// LabelSmoothing is the cross-entropy of the first logits and labels with smoothed targets: a share
// of epsilon is spread evenly over all classes. Labels equal to ignore do not count. It is
// LabelSmoother of Hugging Face's Trainer: the mean over the labels that count or, if the task
// counts items, their sum divided by [ForwardPass].Items. [Options].LabelSmoothing uses it. Call it
// directly in a loss of your own.
//
// Source: Szegedy and others, Rethinking the Inception Architecture for Computer Vision,
// https://arxiv.org/abs/1512.00567.
func LabelSmoothing(p ForwardPass, o Outputs, epsilon float64, ignore int64) Loss {
	logits, labels := o.Logits[0], o.Labels[0]
	if o.Shifted {
		time := int64(logits.Dim() - 2)
		logits = logits.Slice(time, 0, logits.Size(time)-1, 1).Contiguous()
		labels = labels.Slice(-1, 1, labels.Size(-1), 1).Contiguous()
	}
	logProbs := logits.LogSoftmax(-1, torch.DefaultDType).Neg()
	if labels.Dim() == logProbs.Dim()-1 {
		labels = labels.Unsqueeze(-1)
	}
	padding := labels.EqScalar(ignore)
	// The ignored label may be negative and cannot be gathered; class 0 can, and the mask hides it.
	nll := logProbs.Gather(-1, labels.Clamp(0, nil)).MaskedFill_(padding, 0.0)
	smoothed := logProbs.SumDim([]int64{-1}, true, torch.Float32).MaskedFill_(padding, 0.0)
	count := torch.TensorOptions{DType: torch.Int64, Device: p.Device}
	var divisor torch.Tensor
	if p.Items > 0 {
		divisor = count.Full(p.Items)
	} else {
		divisor = count.Full(padding.Numel()).Sub(padding.ToDType(torch.Int64).Sum(torch.DefaultDType))
	}
	if p.Part { // all labels of a part may be ignored
		divisor = divisor.Clamp(1, nil)
	}
	nll = nll.Sum(torch.DefaultDType).Div(divisor)
	smoothed = smoothed.Sum(torch.DefaultDType).Div(divisor.MulScalar(logProbs.Size(-1)))
	value := nll.MulScalar(1 - epsilon).Add(smoothed.MulScalar(epsilon))
	return Loss{Value: value, Rows: o.Rows, whole: p.Items > 0}
}
