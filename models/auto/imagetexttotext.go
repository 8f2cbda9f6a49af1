package auto

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/regularfile"
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/llava"
	"github.com/gotrainer/gotrainer/models/sft"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/chat"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/vision"
)

// ImageTextToTextModel answers texts with images: AutoModelForImageTextToText with a
// LlavaForConditionalGeneration.
type ImageTextToTextModel struct{ *Model }

var _ sft.ImageModel = (*ImageTextToTextModel)(nil)

// ImageTextToText loads a model from a folder or the Hub: a LLaVA. For a TrOCR, see [ImageToText].
func ImageTextToText(ctx context.Context, model string, o Options) (*ImageTextToTextModel, error) {
	if o.Quantize != nil {
		return nil, errOnlyTextsQuantized
	}
	m, err := load(ctx, model, imageTextToText, o)
	if err != nil {
		return nil, err
	}
	return &ImageTextToTextModel{m}, nil
}

// NewImageTextToText makes a model with random weights, such as a [llava.Config] describes, in
// training mode: from_config. The processor and the tokenizer are saved with the model. They may be
// nil if the program has prepared pixels, and token ids. Model.ChatTemplate may be set, too.
func NewImageTextToText(c Config, processor *vision.Processor, t *text.Tokenizer) (*ImageTextToTextModel, error) {
	p, err := c.Blueprint()
	if err == nil && p.ImageTokens.PerImage == 0 {
		err = fmt.Errorf("a %s is not for texts with images", p.Class)
	}
	var m *Model
	if err == nil {
		err = torch.Try(func() { m = newModel(p, imageTextToText, transformer.Builder{}) })
	}
	if err == nil {
		err = m.defaultLlavaProcessor()
	}
	if err != nil {
		return nil, fmt.Errorf("auto: %w", err)
	}
	m.ImageProcessor, m.processor.Type, m.Tokenizer = processor, m.blueprint.ImageProcessor, t
	return &ImageTextToTextModel{m}, nil
}

// defaultLlavaProcessor sets the processor that the model's config describes.
func (m *Model) defaultLlavaProcessor() error {
	d, err := m.blueprint.Document(m.Architecture())
	if err != nil {
		return err
	}
	p, err := llava.ProcessorOf(d)
	m.LlavaProcessor = &p
	return err
}

// loadLlavaProcessor reads processor_config.json of a folder. What it lacks is as in the model's
// config.
func (m *Model) loadLlavaProcessor(dir string) error {
	if err := m.defaultLlavaProcessor(); err != nil {
		return fmt.Errorf("auto: %w", err)
	}
	path := filepath.Join(dir, processorName)
	content, err := regularfile.ReadFile(path, maxProcessorConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(content, m.LlavaProcessor)
	}
	if err != nil {
		return fmt.Errorf("auto: %s: %w", path, err)
	}
	return nil
}

// Task is what engine.New trains, with the defaults of [causallm.NewImageTask].
func (m *ImageTextToTextModel) Task() *causallm.ImageTask {
	return must(causallm.NewImageTask(m, causallm.ImageTaskOptions{}))
}

// SFTTask is the task of learning to continue texts with images: SFTTrainer of TRL.
func (m *ImageTextToTextModel) SFTTask(o sft.TaskOptions) (*sft.ImageTask, error) {
	return sft.NewImageTask(m, o)
}

// FreezeVisionTower excludes the vision tower from training, as is usual. Call it before
// engine.New. To train only the projector, as LLaVA's first stage does, also call nn.Freeze(m,
// "language_model.*"). With an adapter ([Model.AddLoRA]) everything but the adapter is frozen
// anyway.
func (m *ImageTextToTextModel) FreezeVisionTower() error { return nn.Freeze(m, "vision_tower.*") }

// ImageLimits says which images the model takes.
func (m *ImageTextToTextModel) ImageLimits() inputs.ImageLimits { return m.blueprint.Images }

// ImageTokens says which tokens stand for an image in a text, and how many.
func (m *ImageTextToTextModel) ImageTokens() inputs.ImageTokens { return m.blueprint.ImageTokens }

// EOSTokenIDs are the tokens that end a text: eos_token_id.
func (m *ImageTextToTextModel) EOSTokenIDs() []int64 { return slices.Clone(m.blueprint.EOSTokenIDs) }

// HiddenImages maps token ids and their mask, [B, L], and the pixels of the images of all texts in
// their order, [N, channels, height, width], to the input of the output layer, [B, L, hidden]. The
// mask has 0 for padding; undefined means that there is none. Undefined pixels mean that there are
// no images. It panics with [*torch.Error] if the images have another size than the model takes, or
// the texts another number of image tokens than the images need.
func (m *ImageTextToTextModel) HiddenImages(ids, mask, pixels torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		see, features := m.backbone.ImageTexts, torch.Tensor{}
		if pixels.Defined() {
			features = see.Features(pixels)
		}
		return see.Forward(ids, mask, features)
	})
}

// ForwardImages is [ImageTextToTextModel.HiddenImages] with the output layer: it returns logits,
// [B, L, vocabulary].
func (m *ImageTextToTextModel) ForwardImages(ids, mask, pixels torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		return m.head.forward(m.backbone, m.HiddenImages(ids, mask, pixels))
	})
}

// Logits says how the logits of the output layer are transformed: they are not.
func (m *ImageTextToTextModel) Logits() transformer.Logits { return m.blueprint.Logits }

// Encode makes a sample of a text with images, each of which the text names by one image token,
// <image> unless Model.LlavaProcessor has another. All tokens are learned, those of images too, as
// in TRL. The sample is cut to what the model takes, but must not lose image tokens.
func (m *ImageTextToTextModel) Encode(s string, images ...*vision.Image) (causallm.ImageSample, error) {
	e, _, prepared, err := m.encodeImages(s, nil, images, nil)
	if err != nil {
		return causallm.ImageSample{}, err
	}
	return causallm.ImageSample{Sample: causallm.Sample{Text: m.Limits().Of(e)}, Images: prepared}, nil
}

// EncodeChat makes a sample of a conversation with images, which stand where its messages have
// image parts, or before the first text of the user: [chat.WithImages]. Only what the assistant
// says is learned, as in [CausalLanguageModel.EncodeChat]. As the processors of transformers do,
// and TRL does not, it adds the tokenizer's special tokens, such as one at the beginning, unless
// the template writes the one at the beginning itself.
func (m *ImageTextToTextModel) EncodeChat(c chat.Conversation, images ...*vision.Image) (s causallm.ImageSample,
	err error) {
	t, err := m.template()
	if err != nil {
		return s, err
	}
	if c, err = chat.WithImages(c, len(images)); err != nil {
		return s, fmt.Errorf("auto: %w", err)
	}
	written, spans, err := t.RenderAssistant(c)
	if err != nil {
		return s, fmt.Errorf("auto: %w", err)
	}
	e, spans, prepared, err := m.encodeImages(written, spans, images, m.begins(written))
	if err != nil {
		return s, err
	}
	return causallm.ImageSample{Sample: m.learned(e, spans), Images: prepared}, nil
}

// begins returns the options with which a text of the chat template is tokenized.
func (m *Model) begins(written string) *text.EncodeOptions {
	special := m.specialTokens
	if t := m.ChatTemplate; t != nil && t.SpecialTokens != nil {
		special = t.SpecialTokens
	}
	bos := special["bos_token"]
	return &text.EncodeOptions{NoSpecialTokens: bos != "" && strings.HasPrefix(written, bos)}
}

// encodeImages tokenizes a text, cut to what the model takes, and prepares its images. It also
// returns where spans of the text are after image tokens have been multiplied.
func (m *ImageTextToTextModel) encodeImages(s string, spans []text.Span, images []*vision.Image,
	o *text.EncodeOptions) (e *text.Encoding, _ []text.Span, prepared []inputs.Image, err error) {
	if s, spans, prepared, err = m.expand(s, spans, images); err != nil {
		return nil, nil, nil, err
	}
	if e, err = m.encodeWith(text.Single(s), o); err != nil {
		return nil, nil, nil, err
	}
	if reason := m.ImageTokens().Fault(e.IDs, len(images)); reason != "" {
		return nil, nil, nil, fmt.Errorf("auto: %s", reason)
	}
	return e, spans, prepared, nil
}

// expand prepares the images of a text, and multiplies their tokens in it.
func (m *ImageTextToTextModel) expand(s string, spans []text.Span, images []*vision.Image) (_ string, _ []text.Span,
	prepared []inputs.Image, err error) {
	if m.Tokenizer == nil {
		return "", nil, nil, m.errNoTokenizer()
	}
	p := m.LlavaProcessor
	if p == nil {
		return "", nil, nil, errors.New("auto: Model.LlavaProcessor is nil; want that of the model (llava.Config.Processor)")
	}
	token, want := p.Token(), m.ImageTokens().ID
	if id, ok := m.Tokenizer.TokenToID(token); !ok || id != want {
		found := "no token"
		if ok {
			found = fmt.Sprintf("token %d", id)
		}
		return "", nil, nil, fmt.Errorf("auto: the tokenizer has %s as %s, and the model's image_token_index is %d; want "+
			"the tokenizer and the processor of the model", token, found, want)
	}
	counts := make([]int64, len(images))
	prepared = make([]inputs.Image, len(images))
	for i, im := range images {
		if prepared[i], err = m.prepare(im); err != nil {
			return "", nil, nil, err
		}
		counts[i] = p.NumImageTokens(prepared[i].Shape[1], prepared[i].Shape[2])
	}
	if s, spans, err = p.Expand(s, counts, spans); err != nil {
		return "", nil, nil, fmt.Errorf("auto: %w", err)
	}
	return s, spans, prepared, nil
}
