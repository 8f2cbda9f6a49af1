package engine

import (
	"fmt"
	"maps"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Examples is a batch of [data.Example].
type Examples struct {
	Features []float32 // row-major, [Rows, len/Rows]
	Classes  []int64
}

// Classify is the task of classifying a vector of features: cross-entropy over the model's outputs,
// [rows, classes]. An evaluation gives "accuracy" and the numbers of any further metrics. Samples
// of class [IgnoreIndex] count neither in the loss nor in the metrics.
func Classify(model nn.Layer, more ...metrics.Metric[int]) Task[data.Example, Examples] {
	return &classify{model: model, metrics: append([]metrics.Metric[int]{&metrics.Accuracy[int]{}}, more...)}
}

// Classifier is [Classify] for a model that is made later, in the form that [Main] takes.
func Classifier(model func() nn.Layer, more ...metrics.Metric[int]) func() Task[data.Example, Examples] {
	return func() Task[data.Example, Examples] { return Classify(model(), more...) }
}

type classify struct {
	model    nn.Layer
	metrics  []metrics.Metric[int]
	observed []observed
	outcomes Observations[outcome] // of all processes if they share an evaluation
	outputs  int64                 // number of the model's outputs, once it has run

	// memory of batches
	features data.Buffers[float32]
	classes  data.Buffers[int64]
}

// outcome is the prediction for a sample and its true class.
type outcome struct{ Predicted, Class int64 }

// observed are the predictions of a batch. They stay on the device until the evaluation ends, so
// that no batch waits for it.
type observed struct {
	predicted torch.Tensor
	classes   []int64
}

func (c *classify) Model() any { return c.model }

func (c *classify) Collate(samples []data.Example) (Examples, error) {
	width := len(samples[0].Features)
	b := Examples{c.features.Get(width * len(samples)), c.classes.Get(len(samples))}
	for i, s := range samples {
		if len(s.Features) != width {
			return Examples{}, fmt.Errorf("sample %d of the batch has %d features, but the first has %d", i,
				len(s.Features), width)
		}
		copy(b.Features[i*width:], s.Features)
		b.Classes[i] = s.Class
	}
	return b, nil
}

func (c *classify) Recycle(b Examples) {
	c.features.Put(b.Features)
	c.classes.Put(b.Classes)
}

func (c *classify) Predict(p ForwardPass, b Examples) Outputs {
	logits, classes := c.forward(p, b)
	return Outputs{Logits: []torch.Tensor{logits}, Labels: []torch.Tensor{classes}, Rows: len(b.Classes)}
}

func (c *classify) forward(p ForwardPass, b Examples) (logits, classes torch.Tensor) {
	rows := int64(len(b.Classes))
	x := Input(p, b.Features, rows, int64(len(b.Features))/rows)
	logits = c.model.Forward(x)
	c.outputs = logits.Size(-1)
	checkClasses(c.outputs, b.Classes)
	return logits, Input(p, b.Classes)
}

// checkClasses reports a class for which the model has no output, and its row. Libtorch would
// report it without the row and, on a GPU, only much later.
func checkClasses(outputs int64, classes []int64) {
	for row, class := range classes {
		if class != IgnoreIndex && (class < 0 || class >= outputs) {
			panic(torch.Errorf("Classify", torch.ErrValue, "row %d of the batch has class %d, but the model has %d "+
				"outputs, so the classes are 0 to %d (or %d, which is left out)", row, class, outputs, outputs-1, IgnoreIndex))
		}
	}
}

func (c *classify) Inputs(p ForwardPass, b Examples) {
	rows := int64(len(b.Classes))
	Input(p, b.Features, rows, int64(len(b.Features))/rows)
	Input(p, b.Classes)
	if c.outputs > 0 { // with a CUDA graph Predict is not called, so the check there is skipped
		checkClasses(c.outputs, b.Classes)
	}
}

func (c *classify) LossOf(_ ForwardPass, o Outputs) Loss {
	return crossEntropy(o.Logits[0], o.Labels[0], o.Rows)
}

func crossEntropy(logits, classes torch.Tensor, rows int) Loss {
	return Mean(logits.CrossEntropyLoss(classes, torch.Tensor{}, torch.ReductionMean, IgnoreIndex, 0), rows)
}

// Loss is LossOf applied to the result of Predict, but without allocating the lists of Outputs.
func (c *classify) Loss(p ForwardPass, b Examples) Loss {
	logits, classes := c.forward(p, b)
	return crossEntropy(logits, classes, len(b.Classes))
}

func (c *classify) Observe(b Examples, o Outputs) {
	c.observed = append(c.observed, observed{o.Logits[0].ArgMax(-1, false).Keep(), b.Classes})
}

func (c *classify) Metrics() map[string]float64 {
	c.collect()
	for _, j := range c.outcomes.Noted() {
		if j.Class == IgnoreIndex {
			continue
		}
		for _, m := range c.metrics {
			m.Add(int(j.Predicted), int(j.Class))
		}
	}
	return Results(c.metrics)
}

// collect waits for the device and records the outcomes of the observed batches.
func (c *classify) collect() {
	for _, o := range c.observed {
		for i, predicted := range torch.Values[int64](o.predicted) {
			c.outcomes.Note(outcome{predicted, o.classes[i]})
		}
		o.predicted.Free()
	}
	c.observed = nil
}

func (c *classify) TakeObserved(rows int) ([]byte, error) {
	c.collect()
	return c.outcomes.TakeObserved(rows)
}

func (c *classify) AddObserved(part []byte) error { return c.outcomes.AddObserved(part) }

// Results returns the numbers of the metrics and resets them.
func Results[P any](list []metrics.Metric[P]) map[string]float64 {
	all := map[string]float64{}
	for _, m := range list {
		maps.Copy(all, m.Result())
		m.Reset()
	}
	return all
}
