package auto

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/contrastive"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
)

// ZeroShotImageClassifier compares images with texts: AutoModelForZeroShotImageClassification,
// which is CLIPModel or SiglipModel. It says which of any texts describes an image best, and
// gives vectors of texts and images for search. Package contrastive trains it.
type ZeroShotImageClassifier struct{ *Model }

var _ contrastive.Model = (*ZeroShotImageClassifier)(nil)

// ZeroShotImageClassification loads a model from a folder or the Hub, with its tokenizer and its
// image processor.
func ZeroShotImageClassification(ctx context.Context, model string, o Options) (*ZeroShotImageClassifier, error) {
	switch {
	case o.Quantize != nil:
		return nil, errOnlyTextsQuantized
	case o.ID2Label != nil || o.ProblemType != "":
		return nil, errors.New("auto: Options.ID2Label or ProblemType is set; want neither: this model has no classes, " +
			"and Predict takes any texts (ImageClassification trains classes)")
	}
	m, err := load(ctx, model, zeroShotImages, o)
	if err != nil {
		return nil, err
	}
	return &ZeroShotImageClassifier{m}, nil
}

// NewZeroShotImageClassification makes a model with random weights, such as a [clip.Config] or a
// [siglip.Config] describes, in training mode: from_config. Tokenizer and processor are saved
// with the model. They may be nil if the program has token ids and prepared pixels.
func NewZeroShotImageClassification(c Config, t *text.Tokenizer, processor *vision.Processor) (
	*ZeroShotImageClassifier, error) {
	p, err := c.Blueprint()
	if err == nil && duals[p.ModelType] == nil {
		err = fmt.Errorf("a %s does not compare texts with images", p.Class)
	}
	var m *Model
	if err == nil {
		err = torch.Try(func() { m = newModel(p, zeroShotImages, transformer.Builder{Alone: true}) })
	}
	if err != nil {
		return nil, fmt.Errorf("auto: %w", err)
	}
	m.Tokenizer, m.ImageProcessor, m.processor.Type = t, processor, m.blueprint.ImageProcessor
	return &ZeroShotImageClassifier{m}, nil
}

// TextFeatures maps token ids, [B, L], to the vectors of texts, [B, size]: get_text_features. The
// attention mask, [B, L], has 0 for padding; undefined means that there is none.
func (m *ZeroShotImageClassifier) TextFeatures(ids, mask torch.Tensor) torch.Tensor {
	return m.backbone.Dual.Texts(ids, mask)
}

// ImageFeatures maps the pixels of images, [B, channels, height, width], to their vectors, [B,
// size]: get_image_features. It panics with [*torch.Error] if their size is not one that the model
// takes.
func (m *ZeroShotImageClassifier) ImageFeatures(pixels torch.Tensor) torch.Tensor {
	return m.backbone.Dual.Images(pixels)
}

// Similarities compares the vectors of texts, [T, size], with those of images, [I, size]:
// logits_per_text, [T, I].
func (m *ZeroShotImageClassifier) Similarities(texts, images torch.Tensor) torch.Tensor {
	return m.backbone.Dual.Similarities(texts, images)
}

// SigmoidLoss reports whether the model says for each text and each image whether they belong
// together, as SigLIP does, and not which of several do, as CLIP does.
func (m *ZeroShotImageClassifier) SigmoidLoss() bool { return m.backbone.Dual.Sigmoid }

// ImageLimits says which images the model takes.
func (m *ZeroShotImageClassifier) ImageLimits() inputs.ImageLimits { return m.blueprint.Images }

// EOSTokenIDs are tokens one of which every text must have: eos_token_id. There are none if the
// token with the largest id stands for a text, as in the first CLIPs, or the last one, as in
// SigLIP.
func (m *ZeroShotImageClassifier) EOSTokenIDs() []int64 { return slices.Clone(m.blueprint.EOSTokenIDs) }

// InterpolatePosEncoding is [ImageClassifier.InterpolatePosEncoding].
func (m *ZeroShotImageClassifier) InterpolatePosEncoding(on bool) error {
	return m.interpolatePosEncoding(on)
}

// Task is what engine.New trains, with the defaults of [contrastive.NewTask].
func (m *ZeroShotImageClassifier) Task() *contrastive.Task {
	return must(contrastive.NewTask(m, contrastive.TaskOptions{}))
}

// Encode makes a sample of an image, prepared by Model.ImageProcessor, and a text that describes
// it. A text longer than the model takes is cut. If the tokenizer puts no end token after the
// text, Encode does. For a SigLIP the text is padded to the largest number of tokens, as
// padding="max_length" does in transformers. Padding is attended to if model_input_names of
// tokenizer_config.json lists no attention_mask, as in the files of Google's SigLIPs.
func (m *ZeroShotImageClassifier) Encode(im *vision.Image, caption string) (s contrastive.Sample, err error) {
	if s.Image, err = m.prepare(im); err != nil {
		return s, err
	}
	s.Text, err = m.encodeCaption(caption)
	return s, err
}

// EncodeFile is [ZeroShotImageClassifier.Encode] for an image file.
func (m *ZeroShotImageClassifier) EncodeFile(path, caption string) (contrastive.Sample, error) {
	return ofFile(path, func(im *vision.Image) (contrastive.Sample, error) { return m.Encode(im, caption) })
}

// encodeCaption is Model.EncodeText for a text whose end token stands for it.
func (m *ZeroShotImageClassifier) encodeCaption(s string) (inputs.Text, error) {
	t, err := m.EncodeText(text.Single(s), 0)
	if err != nil {
		return t, err
	}
	if ends := m.EOSTokenIDs(); len(ends) > 0 && !slices.ContainsFunc(t.InputIDs, m.ends) {
		t.InputIDs = append(slices.Clip(t.InputIDs[:min(int64(len(t.InputIDs)), m.Limits().MaxLength-1)]), ends[0])
	}
	if m.backbone.Dual.FullLength {
		m.fill(&t)
	}
	return t, nil
}

// fill pads a text to the largest number of tokens, as the tokenizer of transformers does.
func (m *ZeroShotImageClassifier) fill(t *inputs.Text) {
	c, limits := m.tokenizerConfig, m.Limits()
	pad := limits.PadTokenID
	if id, ok := m.Tokenizer.TokenToID(c.special["pad_token"]); ok {
		pad = id
	}
	all, mask := slices.Repeat([]int64{pad}, int(limits.MaxLength)), make([]int64, limits.MaxLength)
	first := 0
	if c.paddingSide == text.Left {
		first = len(all) - len(t.InputIDs)
	}
	for i := range copy(all[first:], t.InputIDs) {
		mask[first+i] = 1
	}
	if t.InputIDs = all; !c.maskless {
		t.AttentionMask = mask
	}
}

// ends reports whether a token ends a text.
func (m *ZeroShotImageClassifier) ends(id int64) bool {
	return slices.Contains(m.blueprint.EOSTokenIDs, id)
}

// ZeroShotOptions configures [ZeroShotImageClassifier.Predict].
type ZeroShotOptions struct {
	// HypothesisTemplate is the text in which {} is replaced by a label. Zero: "This is a photo of
	// {}.", as in transformers' pipeline; "{}" compares the labels alone.
	HypothesisTemplate string
}

// Predict says how well each of some texts describes an image: the pipeline
// "zero-shot-image-classification". The most probable text comes first. The probabilities of the
// texts, Class.Score, add up to 1, but for a SigLIP, which gives each text a probability of its
// own. Several goroutines may call it at a time, but not while the model is trained.
func (m *ZeroShotImageClassifier) Predict(im *vision.Image, labels []string, o ZeroShotOptions) (classes []Class,
	err error) {
	template := cmp.Or(o.HypothesisTemplate, "This is a photo of {}.")
	switch {
	case len(labels) == 0:
		return nil, errors.New("auto: there are no labels to choose from; want at least one")
	case !strings.Contains(template, "{}"):
		return nil, fmt.Errorf("auto: HypothesisTemplate is %q; want a text with {} in the place of the label", template)
	}
	texts := make([]string, len(labels))
	for i, label := range labels {
		texts[i] = strings.ReplaceAll(template, "{}", label)
	}
	b, err := m.collateTexts(texts)
	if err != nil {
		return nil, err
	}
	images, err := m.collateImages([]*vision.Image{im})
	if err != nil {
		return nil, err
	}
	err = m.Evaluate(func(p engine.ForwardPass) {
		ids, mask, _ := b.To(p)
		x := m.Similarities(m.TextFeatures(ids, mask), m.ImageFeatures(images.To(p))).ToDType(torch.Float64)
		if m.SigmoidLoss() {
			x = x.Sigmoid()
		} else {
			x = x.Softmax(0, torch.DefaultDType)
		}
		for i, score := range torch.Values[float64](x) {
			classes = append(classes, Class{labels[i], int64(i), score})
		}
	})
	slices.SortStableFunc(classes, func(a, b Class) int { return cmp.Compare(b.Score, a.Score) })
	return classes, err
}

// PredictFile is [ZeroShotImageClassifier.Predict] for an image file.
func (m *ZeroShotImageClassifier) PredictFile(path string, labels []string, o ZeroShotOptions) ([]Class, error) {
	return ofFile(path, func(im *vision.Image) ([]Class, error) { return m.Predict(im, labels, o) })
}

// embedBatch is how many texts or images are embedded at a time.
const embedBatch = 32

// EmbedTexts returns the vectors of texts, of length 1: the cosine of two vectors is the sum of their
// products. Several goroutines may call it at a time, but not while the model is trained. If ctx
// ends, it returns the context's cause.
func (m *ZeroShotImageClassifier) EmbedTexts(ctx context.Context, texts []string) ([][]float32, error) {
	return embed(ctx, m, texts, func(some []string) (func(p engine.ForwardPass) torch.Tensor, error) {
		b, err := m.collateTexts(some)
		return func(p engine.ForwardPass) torch.Tensor {
			ids, mask, _ := b.To(p)
			return m.TextFeatures(ids, mask)
		}, err
	})
}

// EmbedImages returns the vectors of images, of length 1, as [ZeroShotImageClassifier.EmbedTexts]
// does for texts. If the positions of patches are interpolated, the images must have one size.
func (m *ZeroShotImageClassifier) EmbedImages(ctx context.Context, images []*vision.Image) ([][]float32, error) {
	return embed(ctx, m, images, func(some []*vision.Image) (func(p engine.ForwardPass) torch.Tensor, error) {
		b, err := m.collateImages(some)
		return func(p engine.ForwardPass) torch.Tensor { return m.ImageFeatures(b.To(p)) }, err
	})
}

// embed computes the vectors of things, some at a time, and divides each by its length.
func embed[T any](ctx context.Context, m *ZeroShotImageClassifier, things []T,
	prepare func(some []T) (func(p engine.ForwardPass) torch.Tensor, error)) (rows [][]float32, err error) {
	for some := range slices.Chunk(things, embedBatch) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		features, err := prepare(some)
		if err != nil {
			return nil, err
		}
		err = m.Evaluate(func(p engine.ForwardPass) {
			x := features(p).ToDType(torch.Float32)
			x = x.Div(x.Square().SumDim([]int64{-1}, true, torch.DefaultDType).Sqrt())
			size := int(x.Size(1))
			rows = slices.AppendSeq(rows, slices.Chunk(torch.Values[float32](x), size))
		})
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func (m *ZeroShotImageClassifier) collateTexts(texts []string) (b inputs.Batch, err error) {
	all := make([]inputs.Text, len(texts))
	for i, s := range texts {
		if all[i], err = m.encodeCaption(s); err != nil {
			return b, err
		}
	}
	return m.Limits().Collate("auto", all, data.Padding{})
}

func (m *ZeroShotImageClassifier) collateImages(images []*vision.Image) (b inputs.Images, err error) {
	all := make([]inputs.Image, len(images))
	for i, im := range images {
		if all[i], err = m.prepare(im); err != nil {
			return b, err
		}
	}
	return m.ImageLimits().Collate("auto", all, func(n int) []float32 { return make([]float32, n) })
}
