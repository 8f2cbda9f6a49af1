package classify

import "github.com/gotrainer/gotrainer/torch"

// Loss is the loss of transformers' classifiers: mean squared error, cross-entropy or binary
// cross-entropy, averaged over the batch. For SingleLabel, labels are the classes, [B] integers;
// otherwise one number for each logit, [B, labels] or, with one label, [B].
func (h Head) Loss(logits, labels torch.Tensor) torch.Tensor {
	switch h.ProblemType {
	case Regression:
		if h.NumLabels == 1 {
			logits, labels = logits.Squeeze(), labels.Squeeze()
		}
		return logits.MSELoss(labels, torch.ReductionMean)
	case MultiLabel:
		return logits.BinaryCrossEntropyWithLogits(labels, torch.Tensor{}, torch.Tensor{}, torch.ReductionMean)
	}
	return logits.View(-1, h.NumLabels).CrossEntropyLoss(labels.View(-1), torch.Tensor{}, torch.ReductionMean, -100, 0)
}
