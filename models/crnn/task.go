package crnn

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Sample is a picture and its text.
type Sample struct {
	Pixels []float32 // normalised, [channels, height, width]
	Text   string
}

// Batch is a batch of samples in the form of Hezar's collator.
type Batch struct {
	Pixels  []float32 // [rows, channels, height, width]
	Targets []int64   // the classes of all labels, concatenated
	Lengths []int64   // of each label
	Texts   []string
}

// Step is a CRNN in training.
type Step = engine.Step[Sample, Batch]

// NewStep prepares a model for package trainer. An evaluation reports "cer", the character error
// rate, and "exact_match", the share of pictures read without a mistake.
func NewStep(m *Model, o engine.Options) (*Step, error) {
	return engine.New(NewTask(m), o)
}

// NewTask makes the task of training a model on pictures with labels, with the CTC loss and greedy
// decoding in evaluations. The loss is averaged as in Hezar: each picture's loss is divided by the
// length of its label, then averaged over pictures; a picture whose label cannot be aligned counts
// as 0. It is an [engine.Observer]: predictions are log-probabilities, [rows, frames, classes],
// for [Model.ReadRows], and labels are [rows, length], padded with [engine.IgnoreIndex].
func NewTask(m *Model) engine.Task[Sample, Batch] {
	return &task{model: m, metrics: []metrics.Metric[string]{&metrics.CER{}, &metrics.ExactMatch{}}}
}

var _ interface {
	engine.InputLister[Batch]
	engine.Observer[Batch]
	engine.ObservationSharer
	engine.OptionsValidator
	engine.Recycler[Batch]
} = (*task)(nil)

type task struct {
	engine.Observations[reading]
	model   *Model
	metrics []metrics.Metric[string]

	// of the batches
	pixels  data.Buffers[float32]
	numbers data.Buffers[int64]
	texts   data.Buffers[string]
}

// reading is the text read in an image, and the expected text.
type reading struct{ Got, Want string }

func (t *task) Model() any                   { return t.model }
func (t *task) WriteConfig(dir string) error { return t.model.config.WriteConfig(dir) }

func (t *task) Collate(samples []Sample) (Batch, error) {
	c := t.model.config
	b := Batch{Pixels: t.pixels.Get(len(samples) * c.pixels()), Lengths: t.numbers.Get(len(samples)),
		Targets: t.numbers.Get(0), Texts: t.texts.Get(len(samples))}
	for i, s := range samples {
		if len(s.Pixels) != c.pixels() {
			return Batch{}, fmt.Errorf("picture %d of the batch (%q) has %d values; the model wants %d x %d x %d = %d",
				i, s.Text, len(s.Pixels), c.Channels, c.ImageHeight, c.ImageWidth, c.pixels())
		}
		ids, err := encode(t.model.index, t.model.reversed(s.Text))
		if err != nil {
			return Batch{}, fmt.Errorf("picture %d of the batch, label %q: %w", i, s.Text, err)
		}
		copy(b.Pixels[i*c.pixels():], s.Pixels)
		b.Targets = append(b.Targets, ids...)
		b.Lengths[i], b.Texts[i] = int64(len(ids)), s.Text
	}
	return b, nil
}

func (t *task) Recycle(b Batch) {
	t.pixels.Put(b.Pixels)
	t.numbers.Put(b.Lengths)
	t.numbers.Put(b.Targets)
	t.texts.Put(b.Texts)
}

// Predict returns the log-probabilities, [rows, frames, classes], and the labels, [rows, length],
// padded with [engine.IgnoreIndex].
func (t *task) Predict(p engine.ForwardPass, b Batch) engine.Outputs {
	labels := make([]int64, 0, len(b.Targets))
	longest, rest := slices.Max(b.Lengths), b.Targets
	for _, n := range b.Lengths {
		labels = append(labels, rest[:n]...)
		labels = append(labels, slices.Repeat([]int64{engine.IgnoreIndex}, int(longest-n))...)
		rest = rest[n:]
	}
	rows := len(b.Lengths)
	return engine.Outputs{
		Logits: []torch.Tensor{t.forward(p, b).Permute(1, 0, 2)},
		Labels: []torch.Tensor{engine.Input(p, labels, int64(rows), longest)},
		Rows:   rows,
	}
}

// LossOf returns the loss of the outputs of Predict, bit for bit the same as Loss.
func (t *task) LossOf(_ engine.ForwardPass, o engine.Outputs) engine.Loss {
	return engine.Mean(ctc(o.Logits[0].Permute(1, 0, 2), o.Labels[0], engine.IgnoreIndex), o.Rows)
}

// Observe reads the images of an evaluation batch.
func (t *task) Observe(b Batch, o engine.Outputs) {
	for i, r := range t.model.readings(o.Logits[0].Permute(1, 0, 2)) {
		t.Note(reading{r.Text, b.Texts[i]})
	}
}

func (t *task) Metrics() map[string]float64 {
	for _, r := range t.Noted() {
		for _, m := range t.metrics {
			m.Add(r.Got, r.Want)
		}
	}
	return engine.Results(t.metrics)
}

// ValidateOptions returns an error for label smoothing: CTC sums over all alignments of a label
// with the frames, so no frame has a class whose probability could be spread over the others. It
// also returns an error for a custom loss with CUDA graphs, because a custom loss takes the labels
// of Predict, which Inputs does not list.
func (t *task) ValidateOptions(o engine.Options) error {
	if o.LabelSmoothing != 0 {
		return fmt.Errorf("crnn: Options.LabelSmoothing is %g; want 0: CTC knows no label of a frame that could be "+
			"smoothed. Options.Loss takes a loss of your own", o.LabelSmoothing)
	}
	if o.Loss != nil && o.Graphs.Kinds > 0 {
		return errors.New("crnn: Options.Loss and Options.Graphs are both set; want one of them: a graph takes the labels " +
			"as the model's own loss does, one after the other")
	}
	return nil
}

// Inputs lists the inputs of Loss. Batches are of the same kind if their labels have the same total
// length, as those of licence plates of the same format.
func (t *task) Inputs(p engine.ForwardPass, b Batch) {
	t.pictures(p, b)
	checkTargets(b, int64(len(t.model.config.Charset))) // a replayed graph does not call Loss, which would check them
	lossInputs(p, b, t.model.config.Frames())
}

func (t *task) pictures(p engine.ForwardPass, b Batch) torch.Tensor {
	c := t.model.config
	return engine.Input(p, b.Pixels, int64(len(b.Lengths)), c.Channels, c.ImageHeight, c.ImageWidth)
}

func (t *task) forward(p engine.ForwardPass, b Batch) (logProbs torch.Tensor) {
	return t.model.Forward(t.pictures(p, b))
}

func (t *task) Loss(p engine.ForwardPass, b Batch) engine.Loss {
	return engine.Mean(batchLoss(p, t.forward(p, b), b), len(b.Lengths))
}
