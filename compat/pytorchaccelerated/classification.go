package pytorchaccelerated

import (
	"fmt"

	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/torch"
)

// ClassificationMetrics records "accuracy", "precision" and "recall" of every evaluation in the run
// history: the ClassificationMetricsCallback of pytorch-accelerated's documents and examples. The
// prediction is the class with the greatest of the model's outputs; precision and recall are the
// means over the classes that occur, average="macro" of torchmetrics.
//
// Put it before [PrintProgress] and [LogMetrics]. The Trainer's batches are [Batch]es of classes or
// a [Pair] whose targets are.
type ClassificationMetrics struct{ seen metrics.All[int] }

func (c *ClassificationMetrics) OnEvalEpochStart(*Run, EvalEpoch) error {
	c.seen = metrics.All[int]{&metrics.Accuracy[int]{}, &metrics.F1{Average: metrics.Macro()}}
	return nil
}

func (c *ClassificationMetrics) OnEvalStepEnd(_ *Run, e EvalStepEnd) error {
	if len(e.Output.ModelOutputs) == 0 || e.Output.ModelOutputs[0].Dim() != 2 {
		return fmt.Errorf("the step has %d ModelOutputs: want one at least, the first of the shape [rows, classes]",
			len(e.Output.ModelOutputs))
	}
	predictions := torch.Values[int64](e.Output.ModelOutputs[0].ArgMax(-1, false).ToDevice(torch.CPU))
	targets, err := classesOf(e.Batch)
	if err != nil {
		return err
	}
	if len(targets) != len(predictions) {
		return fmt.Errorf("the batch has %d targets and the model gave outputs for %d rows: want one class for each row",
			len(targets), len(predictions))
	}
	for i, p := range predictions {
		c.seen.Add(int(p), int(targets[i]))
	}
	return nil
}

// classesOf returns the target classes of a batch.
func classesOf(batch any) ([]int64, error) {
	switch b := batch.(type) {
	case Batch:
		if b.Classes != nil {
			return b.Classes, nil
		}
	case Pair:
		if _, targets := b.Tensors(torch.CPU); targets.DType() == torch.Int64 && targets.Dim() == 1 {
			return torch.Values[int64](targets), nil
		}
	}
	return nil, fmt.Errorf("the targets of a batch of type %T are no classes: want a Batch with Classes, or a Pair "+
		"whose targets are int64 of one dimension", batch)
}

func (c *ClassificationMetrics) OnEvalEpochEnd(r *Run, _ EvalEpoch) error {
	result := c.seen.Result()
	for _, name := range []string{"accuracy", "precision", "recall"} {
		r.History().UpdateMetric(name, result[name])
	}
	return nil
}
