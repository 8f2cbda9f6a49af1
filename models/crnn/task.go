package crnn

import (
	"fmt"

	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Sample is a picture and what it says.
type Sample struct {
	Pixels []float32 // normalised, [channels, height, width]
	Text   string
}

// Batch is a batch of samples in the form of Hezar's collator.
type Batch struct {
	Pixels  []float32 // [rows, channels, height, width]
	Targets []int64   // the classes of all labels, one after the other
	Lengths []int64   // of each label
	Texts   []string
}

// Step is a CRNN in training.
type Step = engine.Step[Sample, Batch]

// NewStep makes a model ready for package trainer. An evaluation gives "cer", the character error rate, and "exact_match", the share of
// pictures that were read without a mistake.
func NewStep(m *Model, o engine.Options) (*Step, error) {
	return engine.New(NewTask(m), o)
}

// NewTask ties a model to pictures with labels: CTC loss, averaged as Hezar's (each picture's loss by the length of its label, then over
// pictures; a picture whose label cannot be aligned counts as 0), and greedy reading in evaluations.
func NewTask(m *Model) engine.Task[Sample, Batch] {
	return &task{m, []metrics.Metric[string]{&metrics.CER{}, &metrics.ExactMatch{}}}
}

type task struct {
	model   *Model
	metrics []metrics.Metric[string]
}

func (t *task) Model() any                   { return t.model }
func (t *task) WriteConfig(dir string) error { return t.model.config.WriteConfig(dir) }

func (t *task) Collate(samples []Sample) (Batch, error) {
	c := t.model.config
	b := Batch{Pixels: make([]float32, 0, len(samples)*c.pixels()), Lengths: make([]int64, len(samples)), Texts: make([]string, len(samples))}
	for i, s := range samples {
		if len(s.Pixels) != c.pixels() {
			return Batch{}, fmt.Errorf("picture %d of the batch (%q) has %d values; the model wants %d x %d x %d = %d", i, s.Text, len(s.Pixels), c.Channels, c.ImageHeight, c.ImageWidth, c.pixels())
		}
		ids, err := encode(t.model.index, t.model.turned(s.Text))
		if err != nil {
			return Batch{}, fmt.Errorf("picture %d of the batch, label %q: %w", i, s.Text, err)
		}
		b.Pixels = append(b.Pixels, s.Pixels...)
		b.Targets = append(b.Targets, ids...)
		b.Lengths[i], b.Texts[i] = int64(len(ids)), s.Text
	}
	return b, nil
}

func (t *task) forward(p engine.Pass, b Batch) (logProbs torch.Tensor, loss engine.Loss) {
	c := t.model.config
	rows := int64(len(b.Lengths))
	logProbs = t.model.Forward(engine.Input(p, b.Pixels, rows, c.Channels, c.ImageHeight, c.ImageWidth))
	frames := make([]int64, rows)
	for i := range frames {
		frames[i] = logProbs.Size(0)
	}
	targets := engine.Input(p, b.Targets)
	value := logProbs.CTCLoss(targets, torch.From(frames), torch.From(b.Lengths), blank, torch.ReductionMean, true)
	return logProbs, engine.Mean(value, int(rows))
}

func (t *task) Loss(p engine.Pass, b Batch) engine.Loss {
	_, loss := t.forward(p, b)
	return loss
}

func (t *task) Evaluate(p engine.Pass, b Batch) engine.Loss {
	logProbs, loss := t.forward(p, b)
	for i, r := range t.model.readings(logProbs) {
		for _, m := range t.metrics {
			m.Add(r.Text, b.Texts[i])
		}
	}
	return loss
}

func (t *task) Metrics() map[string]float64 { return engine.Results(t.metrics) }
