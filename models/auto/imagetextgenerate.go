package auto

import (
	"context"
	"fmt"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/chat"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
)

// ImagePrompt is a text to continue, and its images, each of which it names by one image token.
type ImagePrompt struct {
	Text   string
	Images []*vision.Image
}

// ImagePromptIDs is an [ImagePrompt] as token ids and prepared images. Each image has
// inputs.ImageTokens.PerImage image tokens.
type ImagePromptIDs struct {
	InputIDs []int64
	Images   []inputs.Image
}

// Chat answers the last message of a conversation with images, which stand where
// [ImageTextToTextModel.EncodeChat] puts them. In all other respects it is
// [CausalLanguageModel.Chat].
func (m *ImageTextToTextModel) Chat(ctx context.Context, c chat.Conversation, g Generation,
	images ...*vision.Image) (string, error) {
	if m.Tokenizer == nil {
		return "", m.errNoTokenizer()
	}
	c, err := chat.WithImages(c, len(images))
	if err != nil {
		return "", fmt.Errorf("auto: %w", err)
	}
	written, err := m.asked(c)
	if err != nil {
		return "", err
	}
	prompt, err := m.promptIDs(ImagePrompt{written, images}, m.begins(written))
	if err != nil {
		return "", err
	}
	g.single, g.answerEnds = true, m.answerEnds()
	return first(m.generateTexts(ctx, []ImagePromptIDs{prompt}, g))
}

// Generate continues a text with images and returns what it adds, without special tokens. The text
// names each image by one image token, <image> unless Model.LlavaProcessor has another. In all
// other respects it is [CausalLanguageModel.Generate].
func (m *ImageTextToTextModel) Generate(ctx context.Context, prompt string, g Generation,
	images ...*vision.Image) (string, error) {
	g.single = true
	return first(m.GenerateBatch(ctx, []ImagePrompt{{prompt, images}}, g))
}

// GenerateBatch is [ImageTextToTextModel.Generate] for several prompts at a time, which is faster
// than one after the other. It returns Generation.NumReturnSequences texts for the first prompt,
// then those for the second, and so on.
//
// Every text keeps its own images. With beams, or with several draws, transformers 5.17 does so
// only for prompts of one image: it multiplies images one by one, so that of two images a text gets
// the first twice.
func (m *ImageTextToTextModel) GenerateBatch(ctx context.Context, prompts []ImagePrompt, g Generation) ([]string,
	error) {
	rows := make([]ImagePromptIDs, len(prompts))
	for i, prompt := range prompts {
		var err error
		if rows[i], err = m.promptIDs(prompt, nil); err != nil {
			return nil, err
		}
	}
	return m.generateTexts(ctx, rows, g)
}

// first returns the first of some texts, if there is one.
func first(texts []string, err error) (string, error) {
	if len(texts) == 0 {
		return "", err
	}
	return texts[0], err
}

// promptIDs tokenizes a prompt and prepares its images.
func (m *ImageTextToTextModel) promptIDs(prompt ImagePrompt, o *text.EncodeOptions) (ids ImagePromptIDs, err error) {
	s, _, images, err := m.expand(prompt.Text, nil, prompt.Images)
	if err != nil {
		return ids, err
	}
	e, err := m.Tokenizer.Encode(s, o)
	if err != nil {
		return ids, fmt.Errorf("auto: %w", err)
	}
	return ImagePromptIDs{e.IDs, images}, nil
}

func (m *ImageTextToTextModel) generateTexts(ctx context.Context, prompts []ImagePromptIDs, g Generation) ([]string,
	error) {
	added, err := m.GenerateIDs(ctx, prompts, g)
	return m.decodeAll(added), err
}

// GenerateIDs is [ImageTextToTextModel.GenerateBatch] with token ids and prepared images: it
// returns the ids that it adds to each prompt. Shorter prompts are padded on the left; nothing
// attends to the padding.
func (m *ImageTextToTextModel) GenerateIDs(ctx context.Context, prompts []ImagePromptIDs, g Generation) (
	added [][]int64, err error) {
	rows, images := make([][]int64, len(prompts)), make([][]inputs.Image, len(prompts))
	for i, prompt := range prompts {
		if reason := m.ImageTokens().Fault(prompt.InputIDs, len(prompt.Images)); reason != "" {
			return nil, fmt.Errorf("auto: prompt %d: %s", i, reason)
		}
		rows[i], images[i] = prompt.InputIDs, prompt.Images
	}
	longest, g, err := m.promptGeneration(rows, g)
	if err != nil {
		return nil, err
	}
	b := inputs.ImageTexts{}
	memory := func(n int) []float32 { return make([]float32, n) }
	b.Images, b.Counts, err = m.ImageLimits().CollateAll("auto", images, memory)
	if err != nil {
		return nil, err
	}
	return m.generated(func(p engine.ForwardPass) ([][]int64, error) { return m.write(ctx, p, rows, b, longest, g) })
}

// Writer makes the function that ImageTaskOptions.Write of package causallm takes. With it, an
// evaluation has the model continue prompts, several at a time, for metrics. It needs
// Model.Tokenizer. A text ends like an answer of [ImageTextToTextModel.Chat].
func (m *ImageTextToTextModel) Writer(g Generation) (func(p engine.ForwardPass, prompts inputs.ImageTexts) []string,
	error) {
	f, err := g.checkWriter(m.Model)
	if err != nil {
		return nil, err
	}
	g.single, g.answerEnds = true, m.answerEnds()
	if _, err := g.resolved(f, m.Model, 0); err != nil {
		return nil, err
	}
	return func(p engine.ForwardPass, b inputs.ImageTexts) []string {
		prompts := rowsOf(b.InputIDs)
		g, err := m.behind(f, b.InputIDs.Width, g)
		if err != nil { // this panic ends the evaluation
			panic(torch.Errorf("auto.ImageTextToTextModel.Writer", torch.ErrInvalid, "%v", err))
		}
		var added [][]int64
		torch.NoGrad(func() {
			torch.Scope(func() { added, _ = m.write(context.Background(), p, prompts, b, b.InputIDs.Width, g) })
		})
		return m.decodeAll(added)
	}, nil
}

// rowsOf returns the rows of a padded field without their padding.
func rowsOf(ids data.Padded[int64]) [][]int64 {
	rows := make([][]int64, ids.Rows)
	for i := range rows {
		rows[i] = ids.Row(i)[:ids.Lengths[i]]
	}
	return rows
}

// write continues prompts with the images of b, the longest of which has the given number of
// tokens.
func (m *ImageTextToTextModel) write(ctx context.Context, p engine.ForwardPass, prompts [][]int64, b inputs.ImageTexts,
	longest int, g Generation) ([][]int64, error) {
	var features torch.Tensor
	if len(b.Images.Pixels) > 0 {
		features = m.backbone.ImageTexts.Features(b.Images.To(p))
		var of []int64 // the images of each copy of each text
		from := 0
		for _, n := range b.Counts {
			for range g.copies() {
				for i := range n {
					of = append(of, int64(from+i))
				}
			}
			from += n
		}
		features = features.IndexSelect(0, engine.Input(p, of, int64(len(of))))
	}
	return m.continued(ctx, p, prompts, longest, g, func(ids torch.Tensor, past *transformer.Past) torch.Tensor {
		return m.backbone.ImageTexts.Decode(ids, features, past)
	})
}
