package yolos

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// head is that of YolosForObjectDetection.
type head struct {
	ClassLabelsClassifier *transformer.MLP `module:"class_labels_classifier"`
	BBoxPredictor         *transformer.MLP `module:"bbox_predictor"`
}

var _ transformer.DetectionHead = (*head)(nil)

func newHead(c Config, b transformer.Builder) *head {
	return &head{b.MLP(c.HiddenSize, c.NumLabels+1), b.MLP(c.HiddenSize, 4)}
}

// Forward maps hidden states, [B, queries, hidden], to logits, [B, queries, classes + 1].
func (h *head) Forward(hidden torch.Tensor) torch.Tensor {
	return h.ClassLabelsClassifier.Forward(hidden)
}

// Boxes implements [transformer.DetectionHead].
func (h *head) Boxes(hidden torch.Tensor) torch.Tensor {
	return h.BBoxPredictor.Forward(hidden).Sigmoid()
}
