package engine

import (
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// For tests of what has no door of its own.
var (
	RepeatedMean = repeatedMean
	PadAndConcat = padAndConcat
	DenseParams  = denseParams
)

// EvalLossOf is the loss of an evaluation whose batches had these losses, in float32, and rows.
func EvalLossOf(e trainer.Evaluation, losses []float64, rows []int) float64 {
	return evalLoss(e, losses, rows, torch.Float32)
}
