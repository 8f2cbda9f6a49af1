package bert

import (
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Sample is a text as token ids with its label; Batch is some of them, padded; Step is a model in
// training.
type (
	Sample = classify.Sample
	Batch  = classify.Batch
	Step   = classify.Step
)

// NewStep makes a classifier ready for package trainer, each batch padded to its longest text. An
// evaluation gives "accuracy", or "mse" and "mae" for a regression; [classify.NewStep] has more to
// choose.
func NewStep(m *Classifier, o engine.Options) (*Step, error) {
	return classify.NewStep(m, classify.TaskOptions{}, o)
}
