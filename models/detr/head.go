package detr

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// head is that of DetrForObjectDetection.
type head struct {
	ClassLabelsClassifier *nn.Linear       `module:"class_labels_classifier"`
	BBoxPredictor         *transformer.MLP `module:"bbox_predictor"`
}

var _ transformer.DetectionHead = (*head)(nil)

func newHead(c Config, b transformer.Builder) *head {
	return &head{b.Linear(c.HiddenSize, c.NumLabels+1), b.MLP(c.HiddenSize, 4)}
}

// Forward maps hidden states, [..., queries, hidden], to logits, [..., queries, classes + 1].
func (h *head) Forward(hidden torch.Tensor) torch.Tensor {
	return h.ClassLabelsClassifier.Forward(hidden)
}

// Boxes implements [transformer.DetectionHead].
func (h *head) Boxes(hidden torch.Tensor) torch.Tensor {
	return h.BBoxPredictor.Forward(hidden).Sigmoid()
}
