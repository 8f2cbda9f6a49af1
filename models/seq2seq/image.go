package seq2seq

import (
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// ImageModel predicts the tokens of a target text from an image.
type ImageModel interface {
	// ForwardPair maps the pixels of images, [B, channels, height, width], and the token ids of
	// target texts, [B, T], to a logit for every word that may follow each target token, [B, T,
	// vocabulary].
	ForwardPair(pixels, decoderIDs torch.Tensor) torch.Tensor
	ImageLimits() inputs.ImageLimits
	Decoder
}

// ImageSample is an image and its target text.
type ImageSample struct {
	inputs.Image
	Labels []int64 // the target, with its end token; [inputs.IgnoreIndex] where a token is not learned
	Target string  // the target as text, for metrics
}

// ImageBatch is some images of one size, and their target texts.
type ImageBatch struct {
	inputs.Images
	TargetBatch
}

// ImageTaskOptions configures [NewImageTask]. Its fields are those of [TaskOptions].
type ImageTaskOptions struct {
	TargetPadding data.Padding
	Write         func(p engine.ForwardPass, b inputs.Images) []string
	Metrics       []metrics.Metric[string]
}

// ImageTask ties a model to images and their texts.
type ImageTask struct{ imageSignal }

// imageSignal is embedded in ImageTask.
type imageSignal = signal[inputs.Image, inputs.Images]

var _ interface {
	engine.Task[ImageSample, ImageBatch]
	engine.Observer[ImageBatch]
	engine.ObservationSharer
	engine.ItemCounter[ImageBatch]
	engine.Configurer
	engine.Recycler[ImageBatch]
} = (*ImageTask)(nil)

// NewImageTask makes the task of a model.
func NewImageTask(m ImageModel, o ImageTaskOptions) (*ImageTask, error) {
	t := &ImageTask{imageSignal{forward: m.ForwardPair}}
	t.collate = func(pkg string, images []inputs.Image, memory func(n int) []float32) (inputs.Images, error) {
		return m.ImageLimits().Collate(pkg, images, memory)
	}
	return t, t.set(m, o.TargetPadding, o.Write, o.Metrics)
}

// Collate joins samples to a batch, pads the targets on the right, and refuses what the model
// cannot take.
func (t *ImageTask) Collate(samples []ImageSample) (b ImageBatch, err error) {
	images, written := make([]inputs.Image, len(samples)), make([]target, len(samples))
	for i, s := range samples {
		images[i], written[i] = s.Image, target{s.Labels, s.Target}
	}
	b.Images, b.TargetBatch, err = t.joined(images, written)
	return b, err
}

// Recycle takes the memory of a batch back: engine.Recycler.
func (t *ImageTask) Recycle(b ImageBatch) { t.memory.Put(b.Pixels) }

// Loss runs the model on a batch.
func (t *ImageTask) Loss(p engine.ForwardPass, b ImageBatch) engine.Loss {
	return t.LossOf(p, t.Predict(p, b))
}

// Predict runs the model on a batch: logits and labels.
func (t *ImageTask) Predict(p engine.ForwardPass, b ImageBatch) engine.Outputs {
	return t.predict(p, b.Images, b.TargetBatch)
}

// Observe has the model write the texts of the images of an evaluation batch.
func (t *ImageTask) Observe(b ImageBatch, _ engine.Outputs) { t.observe(b.Images, b.TargetBatch) }

// CountItems counts the tokens to predict: num_items_in_batch.
func (t *ImageTask) CountItems(b ImageBatch) int64 { return b.countItems() }
