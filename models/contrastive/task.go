package contrastive

import (
	"slices"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Model compares texts with images.
type Model interface {
	// TextFeatures maps token ids, [B, L], to vectors, [B, size]. The attention mask, [B, L], has 0
	// for padding; undefined means that there is none.
	TextFeatures(ids, mask torch.Tensor) torch.Tensor
	// ImageFeatures maps pixels, [B, channels, height, width], to vectors, [B, size].
	ImageFeatures(pixels torch.Tensor) torch.Tensor
	// Similarities compares the vectors of texts, [T, size], with those of images, [I, size]: logits
	// of each text for each image, [T, I].
	Similarities(texts, images torch.Tensor) torch.Tensor
	// SigmoidLoss says that the model learns for each text and each image of a batch whether they
	// belong together, as SigLIP does, and not which of the batch do, as CLIP does.
	SigmoidLoss() bool

	Limits() inputs.Limits
	ImageLimits() inputs.ImageLimits
	// EOSTokenIDs are tokens one of which every text must have; none: any text will do.
	EOSTokenIDs() []int64
	// WriteConfig writes config.json into a folder.
	WriteConfig(dir string) error
}

// Sample is an image and its text.
type Sample struct {
	inputs.Text
	inputs.Image
}

// Batch is some samples, with images of one size.
type Batch struct {
	inputs.Batch
	Images inputs.Images
}

// TaskOptions configures [NewTask].
type TaskOptions struct {
	Padding data.Padding // how wide the texts become; on the right only
}

// Task ties a model to images with texts.
type Task struct {
	model   Model
	options TaskOptions
	pixels  data.Buffers[float32] // of batches
}

var (
	_ engine.Task[Sample, Batch] = (*Task)(nil)
	_ engine.TokenCounter[Batch] = (*Task)(nil)
	_ engine.Configurer          = (*Task)(nil)
	_ engine.InputLister[Batch]  = (*Task)(nil)
	_ engine.Recycler[Batch]     = (*Task)(nil)
)

// NewTask makes the task of a model.
func NewTask(m Model, o TaskOptions) (*Task, error) {
	if err := m.Limits().CheckPadding("contrastive", o.Padding); err != nil {
		return nil, err
	}
	return &Task{model: m, options: o}, nil
}

// Model returns the model.
func (t *Task) Model() any { return t.model }

// WriteConfig writes config.json into a folder.
func (t *Task) WriteConfig(dir string) error { return t.model.WriteConfig(dir) }

// Collate joins samples to a batch. It refuses what the model cannot take.
func (t *Task) Collate(samples []Sample) (b Batch, err error) {
	texts, images := make([]inputs.Text, len(samples)), make([]inputs.Image, len(samples))
	for i, s := range samples {
		if reason := t.fault(s.InputIDs); reason != "" {
			return b, &inputs.SampleError{Package: "contrastive", Index: i, Reason: reason}
		}
		texts[i], images[i] = s.Text, s.Image
	}
	if b.Batch, err = t.model.Limits().Collate("contrastive", texts, t.options.Padding); err != nil {
		return b, err
	}
	b.Images, err = t.model.ImageLimits().Collate("contrastive", images, t.pixels.Get)
	return b, err
}

// fault returns the reason why the model cannot take a text, or the empty string if it can.
func (t *Task) fault(ids []int64) string {
	ends := t.model.EOSTokenIDs()
	is := func(id int64) bool { return slices.Contains(ends, id) }
	if len(ids) > 0 && len(ends) > 0 && !slices.ContainsFunc(ids, is) {
		return "the text has no end token, whose hidden state stands for the text: does the tokenizer put one there?"
	}
	return ""
}

// Recycle takes the memory of a batch back: engine.Recycler.
func (t *Task) Recycle(b Batch) { t.pixels.Put(b.Images.Pixels) }

// Loss runs the model on a batch.
func (t *Task) Loss(p engine.ForwardPass, b Batch) engine.Loss { return t.LossOf(p, t.Predict(p, b)) }

// Predict runs the model on a batch and returns the logits of each text for each image,
// logits_per_text of transformers, and no labels: each text belongs to the image with its index.
func (t *Task) Predict(p engine.ForwardPass, b Batch) engine.Outputs {
	images := t.model.ImageFeatures(b.Images.To(p))
	ids, mask, _ := b.To(p)
	return engine.Outputs{Logits: []torch.Tensor{t.model.Similarities(t.model.TextFeatures(ids, mask), images)},
		Rows: b.InputIDs.Rows}
}

// Inputs lists what Predict copies to the device.
func (t *Task) Inputs(p engine.ForwardPass, b Batch) {
	b.Images.To(p)
	b.To(p)
}

// LossOf is the mean of two cross-entropies: of choosing the image of each text, and the text of
// each image. With Model.SigmoidLoss it is the sum over the images of the binary cross-entropies of
// whether a text belongs to each, and its mean over the texts.
func (t *Task) LossOf(p engine.ForwardPass, o engine.Outputs) engine.Loss {
	if p.Part {
		panic(torch.Errorf("contrastive.Task.Loss", torch.ErrNotSupported, "the loss compares the samples of a batch with "+
			"one another, so a batch cannot be trained in parts: leave DivideOnOutOfMemory out and take a smaller BatchSize"))
	}
	similarities := o.Logits[0]
	if t.model.SigmoidLoss() {
		return engine.Mean(sigmoidLoss(similarities), o.Rows)
	}
	right := torch.TensorOptions{Device: similarities.Device()}.Arange(0, int64(o.Rows), 1)
	choosing := func(x torch.Tensor) torch.Tensor {
		return x.CrossEntropyLoss(right, torch.Tensor{}, torch.ReductionMean, engine.IgnoreIndex, 0)
	}
	return engine.Mean(choosing(similarities).Add(choosing(similarities.T())).DivScalar(2.0), o.Rows)
}

// sigmoidLoss is that of SiglipModel, of logits of each text for each image, [B, B].
func sigmoidLoss(similarities torch.Tensor) torch.Tensor {
	own := torch.TensorOptions{Device: similarities.Device()}.Eye(similarities.Size(0))
	signs := similarities.OnesLike().Neg().Add(own.MulScalar(2)) // 1 where text and image belong together, otherwise -1
	likelihoods := torch.Call("aten::log_sigmoid", signs.Mul(similarities))[0]
	return likelihoods.SumDim([]int64{-1}, false, torch.DefaultDType).Neg().Mean(torch.DefaultDType)
}

// CountTokens counts the tokens of a batch, and those that are not padding.
func (t *Task) CountTokens(b Batch) (all, nonPadding int64) { return b.Tokens() }
