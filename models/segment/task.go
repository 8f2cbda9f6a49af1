package segment

import (
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Step is a model for semantic segmentation in training.
type Step = engine.Step[Sample, Batch]

// TaskOptions configures [NewTask].
type TaskOptions struct {
	// SumWindow sums the gradients of the micro-batches of an accumulation window instead of
	// averaging them. transformers 5.17 does this with its own models, which makes gradients and
	// logged losses that many times as large.
	SumWindow bool
}

// Task ties a model to images with label maps.
type Task struct {
	model   Model
	options TaskOptions
	classes int64
	ignored int64

	pixels data.Buffers[float32] // of batches
	labels data.Buffers[int64]

	last   torch.Tensor // areas of the samples of the last evaluation batch, [B, 3, classes]
	before torch.Tensor // the sum over the batches before it, [3, classes]; both may be undefined
	metric metrics.MeanIoU
}

var _ interface {
	engine.Task[Sample, Batch]
	engine.Observer[Batch]
	engine.ObservationSharer
	engine.LabelCounter[Batch]
	engine.Configurer
	engine.InputLister[Batch]
	engine.OptionsValidator
	engine.Recycler[Batch]
} = (*Task)(nil)

// NewTask makes the task of a model.
func NewTask(m Model, o TaskOptions) *Task {
	ignored := m.IgnoreIndex()
	return &Task{model: m, options: o, classes: classes(m.Head()), ignored: ignored,
		metric: metrics.MeanIoU{Labels: names(m.Head()), IgnoreIndex: new(int(ignored))}}
}

// Recycle takes the memory of a batch back: engine.Recycler.
func (t *Task) Recycle(b Batch) {
	t.pixels.Put(b.Pixels)
	t.labels.Put(b.Labels)
}

// ValidateOptions refuses what is for other models.
func (t *Task) ValidateOptions(o engine.Options) error {
	switch {
	case o.NEFTuneAlpha != 0:
		return fmt.Errorf("segment: Options.NEFTuneAlpha is %g; want 0: its noise is for embeddings of tokens, and this is "+
			"an image model", o.NEFTuneAlpha)
	case o.LabelSmoothing != 0:
		return errors.New("segment: Options.LabelSmoothing is set; want 0: it takes the last dimension of logits for that " +
			"of the classes, and here it is the second; Options.Loss can smooth labels")
	}
	return nil
}

// Model returns the model.
func (t *Task) Model() any { return t.model }

// WriteConfig writes config.json into a folder.
func (t *Task) WriteConfig(dir string) error { return t.model.WriteConfig(dir) }

// Loss runs the model on a batch.
func (t *Task) Loss(p engine.ForwardPass, b Batch) engine.Loss { return t.LossOf(p, t.Predict(p, b)) }

// Predict runs the model on a batch and returns logits, [B, labels, rows, columns], and labels, [B,
// height, width].
func (t *Task) Predict(p engine.ForwardPass, b Batch) engine.Outputs {
	o := engine.Outputs{Logits: []torch.Tensor{t.model.Forward(b.To(p))}, Rows: b.rows()}
	if b.Labels != nil {
		o.Labels = []torch.Tensor{engine.Input(p, b.Labels, b.LabelShape...)}
	}
	return o
}

// Inputs lists what Predict copies to the device.
func (t *Task) Inputs(p engine.ForwardPass, b Batch) {
	b.To(p)
	if b.Labels != nil {
		engine.Input(p, b.Labels, b.LabelShape...)
	}
}

// LossOf computes [Loss].
func (t *Task) LossOf(_ engine.ForwardPass, o engine.Outputs) engine.Loss {
	if len(o.Labels) == 0 {
		return engine.Loss{Rows: o.Rows}
	}
	value := Loss(o.Logits[0], o.Labels[0], t.ignored)
	if t.options.SumWindow {
		return engine.PerItem(value, o.Rows)
	}
	return engine.Mean(value, o.Rows)
}

// CountLabels counts the pixels that the loss is averaged over: engine.LabelCounter.
func (t *Task) CountLabels(b Batch) (n int64) {
	if t.model.Head().NumLabels == 1 {
		return int64(len(b.Labels))
	}
	for _, label := range b.Labels {
		if label != t.ignored {
			n++
		}
	}
	return n
}
