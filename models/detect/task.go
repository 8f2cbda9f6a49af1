package detect

import (
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Model finds objects in images.
type Model interface {
	// Predictions maps pixels, [B, channels, height, width], to what there is in them. mask, [B,
	// height, width], is 1 where there is image and 0 in padding; undefined means that there is no
	// padding.
	Predictions(pixels, mask torch.Tensor) Predictions

	Head() classify.Head // the classes
	ImageLimits() inputs.ImageLimits
	// LossSettings returns the resolved settings of the loss.
	LossSettings() LossSettings

	// WriteConfig writes config.json into a folder.
	WriteConfig(dir string) error
}

// Step is a detector in training.
type Step = engine.Step[Sample, Batch]

// TaskOptions configures [NewTask].
type TaskOptions struct {
	// Metrics are those of an evaluation. They get all boxes that the model predicts in an image and
	// those that are there, in pixels of the image. Nil: mean average precision.
	Metrics []metrics.Metric[[]metrics.Box]

	// SumWindow sums the gradients of the micro-batches of an accumulation window instead of
	// averaging them. transformers 5.17 does this under gradient_accumulation_steps, which makes
	// gradients and logged losses that many times as large.
	SumWindow bool
}

// Task ties a model to images with objects.
type Task struct {
	engine.Observations[seen]
	model    Model
	settings LossSettings
	options  TaskOptions
	pixels   data.Buffers[float32] // of batches
}

// seen are the boxes that were found in an image, and those that are there.
type seen struct{ Found, There []Object }

var _ interface {
	engine.Task[Sample, Batch]
	engine.Observer[Batch]
	engine.ObservationSharer
	engine.ObservationSorter
	engine.Configurer
	engine.OptionsValidator
	engine.Recycler[Batch]
} = (*Task)(nil)

// NewTask makes the task of a model.
func NewTask(m Model, o TaskOptions) (*Task, error) {
	settings, err := m.LossSettings().Resolved()
	if err != nil {
		return nil, fmt.Errorf("detect: %w", err)
	}
	if o.Metrics == nil {
		o.Metrics = []metrics.Metric[[]metrics.Box]{&metrics.MeanAveragePrecision{}}
	}
	return &Task{model: m, settings: settings, options: o}, nil
}

// Model returns the model.
func (t *Task) Model() any { return t.model }

// WriteConfig writes config.json into a folder.
func (t *Task) WriteConfig(dir string) error { return t.model.WriteConfig(dir) }

// ValidateOptions refuses options that have no meaning for images, or for a loss that matches.
func (t *Task) ValidateOptions(o engine.Options) error {
	if o.NEFTuneAlpha != 0 {
		return fmt.Errorf("detect: Options.NEFTuneAlpha is %g; want 0: its noise is for embeddings of tokens, and this is "+
			"a model of images", o.NEFTuneAlpha)
	}
	if o.LabelSmoothing != 0 {
		return fmt.Errorf("detect: Options.LabelSmoothing is %g; want 0: which class a prediction should have depends on "+
			"the matching", o.LabelSmoothing)
	}
	return nil
}

// Recycle takes the memory of a batch back: engine.Recycler.
func (t *Task) Recycle(b Batch) { t.pixels.Put(b.Pixels) }

// Loss runs the model on a batch.
func (t *Task) Loss(p engine.ForwardPass, b Batch) engine.Loss {
	return t.loss(p, t.predict(p, b), b.Labels)
}

func (t *Task) predict(p engine.ForwardPass, b Batch) Predictions {
	return t.model.Predictions(b.To(p), b.Mask(p))
}

// loss divides the losses of boxes by the mean number of objects that the processes have.
func (t *Task) loss(p engine.ForwardPass, predicted Predictions, l Labels) engine.Loss {
	objects := 0
	for _, n := range engine.GatherObject(p, len(l.Classes)) {
		objects += n
	}
	value := t.settings.Loss(predicted, l, float64(objects)/float64(p.World()))
	if t.options.SumWindow {
		return engine.PerItem(value, len(l.Counts))
	}
	return engine.Mean(value, len(l.Counts))
}

// Predict runs the model on a batch: logits, [B, queries, classes + 1], boxes, [B, queries, 4], and
// those of earlier layers if the loss includes them. Labels are the classes, [B, objects], with
// [inputs.IgnoreIndex] where an image has fewer objects than another, and the boxes, [B, objects,
// 4].
func (t *Task) Predict(p engine.ForwardPass, b Batch) engine.Outputs {
	predicted := t.predict(p, b)
	o := engine.Outputs{Logits: []torch.Tensor{predicted.Logits, predicted.Boxes}, Rows: len(b.Counts)}
	for _, e := range predicted.Earlier {
		o.Logits = append(o.Logits, e.Logits, e.Boxes)
	}
	most := slices.Max(b.Counts)
	classes := slices.Repeat([]int64{inputs.IgnoreIndex}, len(b.Counts)*most)
	boxes := make([]Box, len(classes))
	before := 0
	for i, n := range b.Counts {
		copy(classes[i*most:], b.Classes[before:][:n])
		copy(boxes[i*most:], b.Boxes[before:][:n])
		before += n
	}
	rows := int64(len(b.Counts))
	o.Labels = []torch.Tensor{engine.Input(p, classes, rows, int64(most)),
		engine.Input(p, numbers(boxes), rows, int64(most), 4)}
	return o
}

// LossOf returns the loss of the outputs of Predict, bit for bit the same as Loss.
func (t *Task) LossOf(p engine.ForwardPass, o engine.Outputs) engine.Loss {
	predicted := Predictions{Logits: o.Logits[0], Boxes: o.Logits[1]}
	for i := 2; i < len(o.Logits); i += 2 {
		predicted.Earlier = append(predicted.Earlier, Predictions{Logits: o.Logits[i], Boxes: o.Logits[i+1]})
	}
	var l Labels
	most := int(o.Labels[0].Size(1))
	classes, boxes := torch.Values[int64](o.Labels[0]), torch.Values[float32](o.Labels[1].ToDType(torch.Float32))
	for row := range o.Rows {
		count := 0
		for i := row * most; i < (row+1)*most; i++ {
			if classes[i] >= 0 {
				b := boxes[4*i:]
				l.Classes, l.Boxes = append(l.Classes, classes[i]), append(l.Boxes, Box{b[0], b[1], b[2], b[3]})
				count++
			}
		}
		l.Counts = append(l.Counts, count)
	}
	return t.loss(p, predicted, l)
}

// Observe records an evaluation batch.
func (t *Task) Observe(b Batch, o engine.Outputs) {
	found := Detect(Predictions{Logits: o.Logits[0], Boxes: o.Logits[1]})
	for i, boxes := range found {
		s := seen{There: b.Objects[i]}
		width, height := b.OriginalSize(i)
		for _, f := range boxes {
			x, y, xMax, yMax := f.Box.On(width, height)
			s.Found = append(s.Found, Object{Class: int(f.Class), Score: f.Score, X: x, Y: y, Width: xMax - x,
				Height: yMax - y})
		}
		t.Note(s)
	}
}

// Metrics ends an evaluation.
func (t *Task) Metrics() map[string]float64 {
	for _, s := range t.Noted() {
		for _, m := range t.options.Metrics {
			m.Add(s.Found, s.There)
		}
	}
	return engine.Results(t.options.Metrics)
}

// Found is an object that a model predicts.
type Found struct {
	Class int64
	Score float64 // the probability of the class, from 0 to 1
	Box   Box
}

// Detect returns the best class of each prediction, except for "no object", and its probability,
// for each image: post_process_object_detection of transformers.
func Detect(p Predictions) [][]Found {
	shape := p.Logits.Shape()
	scores, classes := wide(p.Logits).Softmax(-1, torch.DefaultDType).Narrow(-1, 0, shape[2]-1).MaxDim(-1, false)
	score, class := torch.Values[float64](scores.ToDType(torch.Float64)), torch.Values[int64](classes)
	boxes := torch.Values[float32](p.Boxes.ToDType(torch.Float32))
	found := make([][]Found, shape[0])
	queries := int(shape[1])
	for i := range found {
		for at := i * queries; at < (i+1)*queries; at++ {
			b := boxes[4*at:]
			found[i] = append(found[i], Found{class[at], score[at], Box{b[0], b[1], b[2], b[3]}})
		}
	}
	return found
}
