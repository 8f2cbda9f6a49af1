package inputs

import "github.com/gotrainer/gotrainer/torch"

// TokenLoss is the cross-entropy of logits, [B, L, classes], and labels, [B, L], averaged over the
// tokens whose label is not [IgnoreIndex].
func TokenLoss(logits, labels torch.Tensor) torch.Tensor {
	shape := logits.Shape()
	return logits.View(-1, shape[len(shape)-1]).CrossEntropyLoss(labels.View(-1), torch.Tensor{}, torch.ReductionMean,
		IgnoreIndex, 0)
}
