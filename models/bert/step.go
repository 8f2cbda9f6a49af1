package bert

import (
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Sample is a text as token ids with its label. Batch is a padded batch of Samples. Step is a
// model in training.
type (
	Sample = classify.Sample
	Batch  = classify.Batch
	Step   = classify.Step
)

// NewStep prepares a classifier for package trainer, with each batch padded to its longest text.
// An evaluation reports "accuracy", or "mse" and "mae" for a regression; [classify.NewStep] has
// more options.
func NewStep(m *Classifier, o engine.Options) (*Step, error) {
	return classify.NewStep(m, classify.TaskOptions{}, o)
}
