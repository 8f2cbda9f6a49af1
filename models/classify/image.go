package classify

import (
	"fmt"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// ImageModel computes the logits of images.
type ImageModel interface {
	// Forward maps pixels, [B, channels, height, width], to logits, [B, labels].
	Forward(pixels torch.Tensor) torch.Tensor

	Head() Head
	ImageLimits() ImageLimits

	// WriteConfig writes config.json into a folder.
	WriteConfig(dir string) error
}

// ImageLimits says which images a model takes.
type ImageLimits = inputs.ImageLimits

// ImageSample is an image as numbers, prepared for a model, with its label.
type ImageSample struct {
	Pixels []float32 // the first channel row by row, then the second, ...
	Shape  []int64   // channels, height and width

	Label   int64     // the class, for a single-label head
	Targets []float32 // one number for each logit, for regression and multi-label heads
}

// ImageBatch is some images of one size.
type ImageBatch struct {
	Pixels []float32
	Shape  []int64 // rows, channels, height and width

	Labels  []int64   // for a single-label head
	Targets []float32 // else: rows times labels
}

func (b ImageBatch) answers() answers { return answers{int(b.Shape[0]), b.Labels, b.Targets} }

// ImageStep is an image classifier in training.
type ImageStep = engine.Step[ImageSample, ImageBatch]

// ImageTaskOptions configures [NewImageTask]. Its fields are those of [TaskOptions].
type ImageTaskOptions struct {
	Metrics      []metrics.Metric[int]
	ValueMetrics []metrics.Metric[float64]
	SumWindow    bool
}

// ImageTask ties a model to labelled images.
type ImageTask struct {
	judge
	model  ImageModel
	pixels data.Buffers[float32] // of batches
}

var _ interface {
	engine.Task[ImageSample, ImageBatch]
	engine.Observer[ImageBatch]
	engine.ObservationSharer
	engine.ObservationSorter
	engine.LabelCounter[ImageBatch]
	engine.Configurer
	engine.InputLister[ImageBatch]
	engine.OptionsValidator
	engine.Recycler[ImageBatch]
} = (*ImageTask)(nil)

// NewImageTask makes the task of a model.
func NewImageTask(m ImageModel, o ImageTaskOptions) (*ImageTask, error) {
	j, err := newJudge(m.Head(), o.Metrics, o.ValueMetrics, o.SumWindow)
	if err != nil {
		return nil, err
	}
	return &ImageTask{judge: j, model: m}, nil
}

// Collate joins images to a batch. It refuses what the model cannot take, before it can fail inside
// an operator.
func (t *ImageTask) Collate(samples []ImageSample) (b ImageBatch, err error) {
	images, a := make([]inputs.Image, len(samples)), answers{}
	for i, s := range samples {
		if reason := t.fault(s.Label, s.Targets); reason != "" {
			return b, &SampleError{Package: "classify", Index: i, Reason: reason}
		}
		t.take(&a, s.Label, s.Targets)
		images[i] = inputs.Image{Pixels: s.Pixels, Shape: s.Shape}
	}
	joined, err := t.model.ImageLimits().Collate("classify", images, t.pixels.Get)
	return ImageBatch{Pixels: joined.Pixels, Shape: joined.Shape, Labels: a.labels, Targets: a.targets}, err
}

// Recycle takes the memory of a batch back: engine.Recycler.
func (t *ImageTask) Recycle(b ImageBatch) { t.pixels.Put(b.Pixels) }

// ValidateOptions refuses noise on token embeddings, which images do not have.
func (t *ImageTask) ValidateOptions(o engine.Options) error {
	if o.NEFTuneAlpha != 0 {
		return fmt.Errorf("classify: Options.NEFTuneAlpha is %g; want 0: its noise is for embeddings of tokens, and this "+
			"is an image model", o.NEFTuneAlpha)
	}
	return nil
}

// Model returns the model.
func (t *ImageTask) Model() any { return t.model }

// WriteConfig writes config.json into a folder.
func (t *ImageTask) WriteConfig(dir string) error { return t.model.WriteConfig(dir) }

// Loss runs the model on a batch.
func (t *ImageTask) Loss(p engine.ForwardPass, b ImageBatch) engine.Loss {
	return t.LossOf(p, t.Predict(p, b))
}

// Predict runs the model on a batch and returns logits and labels.
func (t *ImageTask) Predict(p engine.ForwardPass, b ImageBatch) engine.Outputs {
	logits := t.model.Forward(engine.Input(p, b.Pixels, b.Shape...))
	return engine.Outputs{Logits: []torch.Tensor{logits}, Labels: []torch.Tensor{t.labels(p, b.answers())},
		Rows: int(b.Shape[0])}
}

// Inputs lists what Predict copies to the device.
func (t *ImageTask) Inputs(p engine.ForwardPass, b ImageBatch) {
	engine.Input(p, b.Pixels, b.Shape...)
	t.labels(p, b.answers())
}

// Observe records an evaluation batch.
func (t *ImageTask) Observe(b ImageBatch, o engine.Outputs) { t.observe(b.answers(), o) }

// CountLabels counts the images that the loss is averaged over: engine.LabelCounter.
func (t *ImageTask) CountLabels(b ImageBatch) int64 { return b.answers().counted() }
