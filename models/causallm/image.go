package causallm

import (
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/writing"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// ImageModel is a Model whose texts have images, for which image tokens stand.
type ImageModel interface {
	Model
	// ForwardImages maps token ids and their mask, [B, L], and the pixels of the images of all texts
	// in their order, [N, channels, height, width], to logits, [B, L, vocabulary]. The mask has 0 for
	// padding; undefined means that there is none. Undefined pixels mean that there are no images.
	ForwardImages(ids, mask, pixels torch.Tensor) torch.Tensor
	ImageLimits() inputs.ImageLimits
	ImageTokens() inputs.ImageTokens
}

// ImageSample is a text with its images, which may be none.
type ImageSample struct {
	Sample
	Images []inputs.Image // in the order in which the text names them
}

// ImageBatch is some samples: texts padded to the same length, and images of one size.
type ImageBatch struct {
	Batch
	Images inputs.Images // of all texts, one after another; without Pixels if there are none
	Counts []int         // of the images of each text
}

// ImageTexts is the batch without its labels.
func (b ImageBatch) ImageTexts() inputs.ImageTexts {
	return inputs.ImageTexts{Batch: b.Batch.Batch, Images: b.Images, Counts: b.Counts}
}

// ImageTaskOptions configures [NewImageTask]. Its fields are those of [TaskOptions].
type ImageTaskOptions struct {
	Padding data.Padding
	Write   func(p engine.ForwardPass, prompts inputs.ImageTexts) []string
	Metrics []metrics.Metric[string]
}

// ImageTask ties a model to texts with images. It is [Task] in all other respects.
type ImageTask struct {
	writing.Evaluation[inputs.ImageTexts]
	texts  *Task
	model  ImageModel
	memory data.Buffers[float32] // of the pixels of batches
	pass   engine.ForwardPass    // of Predict's last call
}

var _ interface {
	engine.Task[ImageSample, ImageBatch]
	engine.Observer[ImageBatch]
	engine.ObservationSharer
	engine.ItemCounter[ImageBatch]
	engine.TokenCounter[ImageBatch]
	engine.Configurer
	engine.OptionsValidator
	engine.Lengther[ImageSample]
	engine.Recycler[ImageBatch]
} = (*ImageTask)(nil)

// NewImageTask makes the task of a model.
func NewImageTask(m ImageModel, o ImageTaskOptions) (t *ImageTask, err error) {
	t = &ImageTask{model: m}
	if t.Evaluation, err = writing.New("causallm", o.Write, o.Metrics); err != nil {
		return nil, err
	}
	t.texts, err = NewTask(m, TaskOptions{Padding: o.Padding})
	return t, err
}

// ValidateOptions refuses options that the model cannot have.
func (t *ImageTask) ValidateOptions(o engine.Options) error { return t.texts.ValidateOptions(o) }

// Model returns the model.
func (t *ImageTask) Model() any { return t.model }

// WriteConfig writes config.json into a folder.
func (t *ImageTask) WriteConfig(dir string) error { return t.model.WriteConfig(dir) }

// Length is the number of tokens of a sample, image tokens included: engine.Lengther.
func (t *ImageTask) Length(s ImageSample) int { return t.texts.Length(s.Sample) }

// CountItems counts the tokens to predict: num_items_in_batch.
func (t *ImageTask) CountItems(b ImageBatch) int64 { return t.texts.CountItems(b.Batch) }

// CountTokens counts the tokens of a batch, image tokens included, and those that are not padding.
func (t *ImageTask) CountTokens(b ImageBatch) (all, nonPadding int64) {
	return t.texts.CountTokens(b.Batch)
}

// Collate pads samples on the right to a batch, joins their images, and refuses what the model
// cannot take.
func (t *ImageTask) Collate(samples []ImageSample) (b ImageBatch, err error) {
	texts, images := make([]Sample, len(samples)), make([][]inputs.Image, len(samples))
	for i, s := range samples {
		if reason := t.model.ImageTokens().Fault(s.InputIDs, len(s.Images)); reason != "" {
			return b, &inputs.SampleError{Package: "causallm", Index: i, Reason: reason}
		}
		texts[i], images[i] = s.Sample, s.Images
	}
	if b.Batch, err = t.texts.Collate(texts); err != nil {
		return b, err
	}
	b.Images, b.Counts, err = t.model.ImageLimits().CollateAll("causallm", images, t.memory.Get)
	return b, err
}

// Recycle takes the memory of a batch back: engine.Recycler.
func (t *ImageTask) Recycle(b ImageBatch) {
	if b.Images.Pixels != nil {
		t.memory.Put(b.Images.Pixels)
	}
}

// Loss runs the model on a batch.
func (t *ImageTask) Loss(p engine.ForwardPass, b ImageBatch) engine.Loss {
	return t.LossOf(p, t.Predict(p, b))
}

// Predict runs the model on a batch and returns logits and labels, as [Task.Predict] does.
func (t *ImageTask) Predict(p engine.ForwardPass, b ImageBatch) engine.Outputs {
	t.pass = p
	logits := t.model.ForwardImages(b.ImageTexts().To(p))
	return engine.Outputs{Logits: []torch.Tensor{logits}, Labels: []torch.Tensor{inputs.Matrix(p, b.Labels)},
		Rows: b.InputIDs.Rows, Shifted: true}
}

// LossOf is [Task.LossOf].
func (t *ImageTask) LossOf(p engine.ForwardPass, o engine.Outputs) engine.Loss {
	return t.texts.LossOf(p, o)
}

// Observe has the model continue the prompts of a batch of an evaluation.
func (t *ImageTask) Observe(b ImageBatch, _ engine.Outputs) {
	if !t.Writes() {
		return
	}
	prompts, err := t.texts.prompts(b.Batch)
	for i := range b.Counts {
		if err != nil {
			break
		}
		if reason := t.model.ImageTokens().Fault(prompts.InputIDs.Row(i), b.Counts[i]); reason != "" {
			err = &inputs.SampleError{Package: "causallm", Index: i, Reason: "its prompt, which is what is before its last " +
				"answer: " + reason}
		}
	}
	if err != nil {
		// This panic ends the evaluation with the error.
		panic(torch.Errorf("causallm.ImageTask.Observe", torch.ErrInvalid, "%v", err))
	}
	t.Score(t.pass, inputs.ImageTexts{Batch: prompts, Images: b.Images, Counts: b.Counts}, b.Targets)
}
