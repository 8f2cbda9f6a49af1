package sft

import (
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// ImageSample is a text with its images, and the tokens to learn.
type ImageSample = causallm.ImageSample

// ImageBatch is some samples: texts padded to the same length, and images of one size.
type ImageBatch = causallm.ImageBatch

// ImageModel is a [Model] whose texts have images.
type ImageModel interface {
	causallm.ImageModel
	// HiddenImages maps token ids and their mask, [B, L], and the pixels of the images of all texts,
	// [N, channels, height, width], to the input of the output layer, [B, L, hidden]. Undefined pixels
	// mean that there are no images.
	HiddenImages(ids, mask, pixels torch.Tensor) torch.Tensor
	// OutputEmbeddings gives each word of the vocabulary a logit.
	OutputEmbeddings() *nn.Linear
	// Logits says how those logits are transformed.
	Logits() transformer.Logits
}

// ImageTask is [Task] for texts with images: SFTTrainer with DataCollatorForVisionLanguageModeling.
// Texts that are longer than TaskOptions.MaxLength are cut like others, and refused if that cuts
// off an image.
type ImageTask struct {
	*textTask
	images *causallm.ImageTask // collates
	model  ImageModel
}

// textTask is embedded in ImageTask.
type textTask = Task

var _ interface {
	engine.Task[ImageSample, ImageBatch]
	engine.Evaluator[ImageBatch]
	engine.ObservationSharer
	engine.TrainingLogger
	engine.ItemCounter[ImageBatch]
	engine.TokenCounter[ImageBatch]
	engine.Configurer
	engine.OptionsValidator
	engine.Lengther[ImageSample]
	engine.Recycler[ImageBatch]
} = (*ImageTask)(nil)

// seeing is a model of texts with the pixels of a batch.
type seeing struct {
	ImageModel
	pixels torch.Tensor
}

// Hidden is that of [Model], for the texts of the batch.
func (s seeing) Hidden(ids, mask torch.Tensor) torch.Tensor {
	return s.HiddenImages(ids, mask, s.pixels)
}

// NewImageTask makes the task of a model.
func NewImageTask(m ImageModel, o TaskOptions) (t *ImageTask, err error) {
	t = &ImageTask{model: m}
	if t.textTask, err = NewTask(seeing{ImageModel: m}, o); err != nil {
		return nil, err
	}
	t.images, err = causallm.NewImageTask(m, causallm.ImageTaskOptions{Padding: o.Padding})
	return t, err
}

// Model returns the model.
func (t *ImageTask) Model() any { return t.model }

// Length is the length of a sample as it is trained on: engine.Lengther.
func (t *ImageTask) Length(s ImageSample) int { return t.textTask.Length(s.Sample) }

// CountItems counts the tokens to predict: num_items_in_batch.
func (t *ImageTask) CountItems(b ImageBatch) int64 { return t.textTask.CountItems(b.Batch) }

// CountTokens counts the tokens of a batch, image tokens included, and those that are not padding.
func (t *ImageTask) CountTokens(b ImageBatch) (all, nonPadding int64) { return t.images.CountTokens(b) }

// Collate cuts samples to TaskOptions.MaxLength, pads them on the right to a batch, and joins their
// images. It refuses what the model cannot take.
func (t *ImageTask) Collate(samples []ImageSample) (b ImageBatch, err error) {
	kept := make([]ImageSample, len(samples))
	for i, s := range samples {
		if err := t.check(i, s.Sample); err != nil {
			return b, err
		}
		kept[i] = ImageSample{Sample: t.cut(s.Sample), Images: s.Images}
	}
	return t.images.Collate(kept)
}

// Recycle takes the memory of a batch back: engine.Recycler.
func (t *ImageTask) Recycle(b ImageBatch) { t.images.Recycle(b) }

// Keep leaves out the samples of which TaskOptions.MaxLength leaves no token to learn, as
// [Task.Keep] does.
func (t *ImageTask) Keep(samples []ImageSample) (kept []ImageSample) {
	for _, s := range samples {
		if len(t.textTask.Keep([]Sample{s.Sample})) > 0 {
			kept = append(kept, s)
		}
	}
	return kept
}

// Loss runs the model on a batch.
func (t *ImageTask) Loss(p engine.ForwardPass, b ImageBatch) engine.Loss {
	return t.learn(t.seeing(p, b), p, b.Batch)
}

// Evaluate runs the model on an evaluation batch.
func (t *ImageTask) Evaluate(p engine.ForwardPass, b ImageBatch) engine.Loss {
	return t.evaluate(t.seeing(p, b), p, b.Batch)
}

// seeing returns the model with the images of a batch.
func (t *ImageTask) seeing(p engine.ForwardPass, b ImageBatch) seeing {
	s := seeing{ImageModel: t.model}
	if len(b.Images.Pixels) > 0 {
		s.pixels = b.Images.To(p)
	}
	return s
}
