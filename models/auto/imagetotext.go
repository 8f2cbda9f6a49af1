package auto

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/seq2seq"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
)

// ImageToTextModel reads the text in an image: AutoModelForImageTextToText with a
// VisionEncoderDecoderModel. It takes no texts besides those that it learns to write.
type ImageToTextModel struct{ *Model }

var _ seq2seq.ImageModel = (*ImageToTextModel)(nil)

// ImageToText loads a model from a folder or the Hub: a TrOCR.
func ImageToText(ctx context.Context, model string, o Options) (*ImageToTextModel, error) {
	if o.Quantize != nil {
		return nil, errOnlyTextsQuantized
	}
	m, err := load(ctx, model, imageToText, o)
	if err != nil {
		return nil, err
	}
	return &ImageToTextModel{m}, nil
}

// NewImageToText makes a model with random weights, such as a [trocr.Config] describes, in training
// mode: from_config. The processor and the tokenizer are saved with the model. They may be nil if
// the program has prepared pixels, and token ids.
func NewImageToText(c Config, processor *vision.Processor, t *text.Tokenizer) (*ImageToTextModel, error) {
	p, err := c.Blueprint()
	if err == nil && (!p.Pair || p.Images.Channels == 0) {
		err = fmt.Errorf("a %s is not for %s", p.Class, imageToText.class)
	}
	var m *Model
	if err == nil {
		err = torch.Try(func() { m = newModel(p, imageToText, transformer.Builder{}) })
	}
	if err != nil {
		return nil, fmt.Errorf("auto: %w", err)
	}
	m.ImageProcessor, m.processor.Type, m.Tokenizer = processor, m.blueprint.ImageProcessor, t
	return &ImageToTextModel{m}, nil
}

// Task is what engine.New trains, with the defaults of [seq2seq.NewImageTask].
func (m *ImageToTextModel) Task() *seq2seq.ImageTask {
	return must(seq2seq.NewImageTask(m, seq2seq.ImageTaskOptions{}))
}

// ImageLimits says which images the model takes.
func (m *ImageToTextModel) ImageLimits() inputs.ImageLimits { return m.blueprint.Images }

// InterpolatePosEncoding is [ImageClassifier.InterpolatePosEncoding].
func (m *ImageToTextModel) InterpolatePosEncoding(on bool) error { return m.interpolatePosEncoding(on) }

// Encode makes a sample of an image, prepared by Model.ImageProcessor, and the text in it, which is
// cut if Model.Tokenizer truncates. If the tokenizer puts no end token after the text, Encode does.
// Random augmentation for training is in package vision/transforms; take its sizes, means and
// deviations from ImageProcessor.Options.
func (m *ImageToTextModel) Encode(im *vision.Image, written string) (s seq2seq.ImageSample, err error) {
	e, err := m.encode(text.Single(written))
	if err != nil {
		return s, err
	}
	s = seq2seq.ImageSample{Labels: m.ended(e.IDs), Target: written}
	s.Image, err = m.prepare(im)
	return s, err
}

// EncodeFile is [ImageToTextModel.Encode] for an image file.
func (m *ImageToTextModel) EncodeFile(path, written string) (s seq2seq.ImageSample, err error) {
	return ofFile(path, func(im *vision.Image) (seq2seq.ImageSample, error) { return m.Encode(im, written) })
}

// ForwardPair maps the pixels of images, [B, channels, height, width], and the token ids of the
// texts in them, [B, T], to logits, [B, T, vocabulary]: see [seq2seq.ImageModel].
func (m *ImageToTextModel) ForwardPair(pixels, decoderIDs torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		return m.head.forward(m.backbone, m.backbone.ForwardSignalPair(pixels, decoderIDs))
	})
}

// DecoderStartTokenID is the token that begins every text: decoder_start_token_id.
func (m *ImageToTextModel) DecoderStartTokenID() int64 { return m.blueprint.DecoderStartTokenID }

// DecoderStartOf is DecoderStartTokenID, whatever the labels.
func (m *ImageToTextModel) DecoderStartOf([]int64) int64 { return m.DecoderStartTokenID() }

// EOSTokenIDs are the tokens that end a text: eos_token_id.
func (m *ImageToTextModel) EOSTokenIDs() []int64 { return slices.Clone(m.blueprint.EOSTokenIDs) }

// Generate writes the text in an image, without special tokens. The model is in evaluation mode
// meanwhile. Several goroutines may call it at a time, but not while the model is trained. If ctx
// ends, Generate returns the text so far and the context's cause.
func (m *ImageToTextModel) Generate(ctx context.Context, im *vision.Image, g Generation) (string, error) {
	g.single = true
	all, err := m.GenerateBatch(ctx, []*vision.Image{im}, g)
	if len(all) == 0 {
		return "", err
	}
	return all[0], err
}

// GenerateFile is [ImageToTextModel.Generate] for an image file.
func (m *ImageToTextModel) GenerateFile(ctx context.Context, path string, g Generation) (string, error) {
	return ofFile(path, func(im *vision.Image) (string, error) { return m.Generate(ctx, im, g) })
}

// GenerateBatch is [ImageToTextModel.Generate] for several images at a time, which is faster than
// one after the other. It returns Generation.NumReturnSequences texts for the first image, then
// those for the second, and so on.
func (m *ImageToTextModel) GenerateBatch(ctx context.Context, images []*vision.Image, g Generation) ([]string, error) {
	if m.Tokenizer == nil {
		return nil, m.errNoTokenizer()
	}
	prepared := make([]inputs.Image, len(images))
	for i, im := range images {
		var err error
		if prepared[i], err = m.prepare(im); err != nil {
			return nil, err
		}
	}
	rows, err := m.GenerateIDs(ctx, prepared, g)
	return m.decodeAll(rows), err
}

// GenerateIDs is [ImageToTextModel.GenerateBatch] with pixels and token ids: it returns the ids that
// it writes for each image, without the token that begins them all.
func (m *ImageToTextModel) GenerateIDs(ctx context.Context, images []inputs.Image, g Generation) (rows [][]int64,
	err error) {
	if len(images) == 0 {
		return nil, errors.New("auto: there are no images to read")
	}
	if g, err = m.pairGeneration(g, len(images)); err != nil {
		return nil, err
	}
	b, err := m.ImageLimits().Collate("auto", images, func(n int) []float32 { return make([]float32, n) })
	if err != nil {
		return nil, err
	}
	return m.generated(func(p engine.ForwardPass) ([][]int64, error) { return m.read(ctx, p, b, g) })
}

// Writer makes the function that ImageTaskOptions.Write of package seq2seq takes. With it, an
// evaluation has the model read its images, for metrics. It needs Model.Tokenizer.
func (m *ImageToTextModel) Writer(g Generation) (func(p engine.ForwardPass, b inputs.Images) []string, error) {
	g, err := m.pairWriter(g)
	if err != nil {
		return nil, err
	}
	return func(p engine.ForwardPass, b inputs.Images) []string {
		rows, _ := m.read(context.Background(), p, b, g) // it runs until the batch is done
		return m.decodeAll(rows)
	}, nil
}

// read generates the texts of the images of a batch.
func (m *ImageToTextModel) read(ctx context.Context, p engine.ForwardPass, b inputs.Images, g Generation) ([][]int64,
	error) {
	return m.writePairs(ctx, p, int(b.Shape[0]), g, func() (hidden, mask torch.Tensor) {
		return m.backbone.EncodeSignal(b.To(p)), torch.Tensor{}
	})
}

// innerHead is the output layer of a decoder that has it inside.
type innerHead struct {
	out *nn.Linear `module:"-"`
}

func (h *innerHead) tie(e *nn.Embedding) { h.out.Weight = e.Weight }

func (h *innerHead) output() *nn.Linear { return h.out }

func (h *innerHead) forward(_ transformer.Backbone, hidden torch.Tensor) torch.Tensor {
	return h.out.Forward(hidden)
}
