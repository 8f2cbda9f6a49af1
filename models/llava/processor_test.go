package llava_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/llava"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/chat"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/vision"
)

// processed returns the model with the files that LlavaProcessor saved.
func processed(t *testing.T) (*auto.ImageTextToTextModel, *golden.File) {
	t.Helper()
	models, file := load(t)
	dir := modeltest.ConfigFolder(t, models[0].Config)
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/processor")))
	torch.ManualSeed(42)
	m, err := auto.ImageTextToText(t.Context(), dir, auto.Options{FromConfig: true})
	require.NoError(t, err)
	return m, file
}

// pictures returns the pictures of the golden file with the given numbers.
func pictures(file *golden.File, numbers []int) (images []*vision.Image) {
	raw := file.Tensor("pictures.3x8x8")
	for _, n := range numbers {
		pix := torch.Values[uint8](raw.Select(0, int64(n)).Permute(1, 2, 0).Contiguous())
		images = append(images, &vision.Image{Width: 8, Height: 8, Channels: 3, Pix: pix})
	}
	return images
}

// TestConversationsAreEncodedAsLlavaProcessorDoes compares the tokens and pixels of conversations,
// and those of the prompts before their last messages.
func TestConversationsAreEncodedAsLlavaProcessorDoes(t *testing.T) {
	m, file := processed(t)
	content, err := os.ReadFile("testdata/llava.json")
	require.NoError(t, err)
	var f struct {
		Conversations []struct {
			Messages    []chat.Message
			Images      []int
			IDs, Prompt []int64
			Text        string
			Pixels      []string
		}
	}
	require.NoError(t, json.Unmarshal(content, &f))
	require.Len(t, f.Conversations, 3)
	for _, c := range f.Conversations {
		images := pictures(file, c.Images)
		s, err := m.EncodeChat(chat.Conversation{Messages: c.Messages}, images...)
		require.NoError(t, err)
		assert.Equal(t, c.IDs, s.InputIDs)
		require.Len(t, s.Images, len(c.Images))
		for i, im := range s.Images {
			if testenv.SameBits() {
				assert.Equal(t, c.Pixels[i], modeltest.Sum(torch.From(im.Pixels, int64(len(im.Pixels))).Bytes()))
			}
		}
		whole, err := m.Encode(c.Text, images...)
		require.NoError(t, err)
		assert.Equal(t, c.IDs, whole.InputIDs)
		assert.Nil(t, whole.Labels)
		from, to := s.Answer()
		assert.Equal(t, c.Prompt, s.InputIDs[:from], "what is before the last answer")
		assert.Equal(t, len(c.IDs), to)
		assert.NotEmpty(t, s.Target)
	}
	second := must(m.EncodeChat(chat.Conversation{Messages: f.Conversations[1].Messages},
		pictures(file, f.Conversations[1].Images)...))
	learned := 0
	for _, label := range second.Labels {
		if label != inputs.IgnoreIndex {
			learned++
		}
	}
	assert.Equal(t, 5+2, learned, "two pictures of a bird; the rain")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestModelsAnswerConversations: Chat, Generate and GenerateIDs ask the same.
func TestModelsAnswerConversations(t *testing.T) {
	m, file := processed(t)
	images := pictures(file, []int{0, 1})
	g := auto.Generation{MaxNewTokens: 4, EOSTokenIDs: []int64{}}
	question := chat.Conversation{Messages: []chat.Message{chat.User("what is this ?")}}
	answer, err := m.Chat(t.Context(), question, g, images...)
	require.NoError(t, err)
	written := "USER: <image>\n<image>\nwhat is this ? ASSISTANT:"
	same, err := m.Generate(t.Context(), written, g, images...)
	require.NoError(t, err)
	assert.NotEmpty(t, answer)
	assert.Equal(t, answer, same)
	s := must(m.Encode(written, images...))
	assert.Equal(t, 2*4, count(s.InputIDs, 58))
	rows, err := m.GenerateIDs(t.Context(), []auto.ImagePromptIDs{{InputIDs: s.InputIDs, Images: s.Images}}, g)
	require.NoError(t, err)
	assert.Equal(t, answer, m.Tokenizer.Decode(rows[0], nil))
	all, err := m.GenerateBatch(t.Context(), []auto.ImagePrompt{{Text: written, Images: images},
		{Text: "what is a fox ?"}}, g)
	require.NoError(t, err)
	assert.Equal(t, answer, all[0])
	beams, err := m.GenerateBatch(t.Context(), []auto.ImagePrompt{{Text: written, Images: images}},
		auto.Generation{MaxNewTokens: 4, NumBeams: 2, NumReturnSequences: 2, EOSTokenIDs: []int64{}})
	require.NoError(t, err)
	assert.Len(t, beams, 2)
}

func count(ids []int64, id int64) (n int) {
	for _, other := range ids {
		if other == id {
			n++
		}
	}
	return n
}

// TestProcessorsAreSavedAndLoaded: what transformers reads, with its settings.
func TestProcessorsAreSavedAndLoaded(t *testing.T) {
	m, file := processed(t)
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	read := func(path string) (d map[string]any) {
		require.NoError(t, json.Unmarshal(must(os.ReadFile(path)), &d))
		return d
	}
	assert.Equal(t, read("testdata/processor/processor_config.json"), read(filepath.Join(dir, "processor_config.json")))
	for _, name := range []string{"chat_template.jinja", "tokenizer.json", "tokenizer_config.json"} {
		assert.Equal(t, must(os.ReadFile(filepath.Join("testdata/processor", name))),
			must(os.ReadFile(filepath.Join(dir, name))), name)
	}
	assert.FileExists(t, filepath.Join(dir, "preprocessor_config.json"))
	c := chat.Conversation{Messages: []chat.Message{chat.User("what is this ?"), chat.Assistant("a red fox")}}
	want := must(m.EncodeChat(c, pictures(file, []int{3})...))
	again, err := auto.ImageTextToText(t.Context(), dir, auto.Options{})
	require.NoError(t, err)
	assert.Equal(t, want, must(again.EncodeChat(c, pictures(file, []int{3})...)))

	// Older folders have the template in chat_template.json and no patch_size.
	template := must(os.ReadFile(filepath.Join(dir, "chat_template.jinja")))
	require.NoError(t, os.Remove(filepath.Join(dir, "chat_template.jinja")))
	older := must(json.Marshal(map[string]string{"chat_template": string(template)}))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.json"), older, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "processor_config.json"),
		[]byte(`{"processor_class": "LlavaProcessor", "patch_size": null}`), 0o600))
	again, err = auto.ImageTextToText(t.Context(), dir, auto.Options{})
	require.NoError(t, err)
	assert.Equal(t, want, must(again.EncodeChat(c, pictures(file, []int{3})...)))
	second := t.TempDir()
	require.NoError(t, again.Save(second))
	assert.Equal(t, older, must(os.ReadFile(filepath.Join(second, "chat_template.json"))))

	require.NoError(t, os.WriteFile(filepath.Join(dir, "processor_config.json"),
		[]byte(`{"processor_class": "LlavaNextProcessor"}`), 0o600))
	_, err = auto.ImageTextToText(t.Context(), dir, auto.Options{})
	require.ErrorContains(t, err, `processor_class is "LlavaNextProcessor"; only "LlavaProcessor" is supported`)
	require.ErrorContains(t, err, "processor_config.json")
}

func TestWrongConversationsAreRefused(t *testing.T) {
	m, file := processed(t)
	image := pictures(file, []int{0})
	say := func(content any) chat.Conversation {
		return chat.Conversation{Messages: []chat.Message{chat.User("").With("content", content), chat.Assistant("a fox")}}
	}
	part := func(kv ...any) []any {
		o := map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			o[kv[i].(string)] = kv[i+1]
		}
		return []any{o}
	}
	for want, c := range map[string]chat.Conversation{
		"the conversation has 0 image parts, and there are 1 images":           say(part("type", "text", "text", "what")),
		`message 0: part 0 has "url"; open the image`:                          say(part("type", "image", "url", "a.png")),
		`message 0: part 0 has the type "video"; want "text" or "image"`:       say(part("type", "video")),
		"message 0: its content is neither a string nor a list of parts":       say(7),
		"the text has 2 image tokens, <image>, and there are 1 images; want o": say("what is <image> this ?"),
	} {
		_, err := m.EncodeChat(c, image...)
		require.ErrorContains(t, err, want)
	}
	_, err := m.Encode("<image> what")
	require.ErrorContains(t, err, "the text has 1 image tokens, <image>, and there are 0 images")
	m.LlavaProcessor.NumAdditionalImageTokens = 2
	_, err = m.Encode("<image> what", image...)
	require.ErrorContains(t, err, "the text has 5 image tokens (id 58), and 1 images need 4, 4 each")
	m.LlavaProcessor.ImageToken = "fox"
	_, err = m.Encode("fox", image...)
	require.ErrorContains(t, err, "the tokenizer has fox as token 12, and the model's image_token_index is 58")
	m.Tokenizer = nil
	_, err = m.Encode("fox", image...)
	require.ErrorContains(t, err, "no tokenizer")
	for _, file := range []string{`{"patch_size": 0}`, `{"num_additional_image_tokens": -1}`,
		`{"vision_feature_select_strategy": "cls"}`, `{"image_token": 3}`, `null`} {
		p, err := llava.Config{}.Processor()
		require.NoError(t, err)
		assert.Error(t, json.Unmarshal([]byte(file), &p), file)
	}
}

// TestSpansMoveWithImageTokens counts characters, not bytes.
func TestSpansMoveWithImageTokens(t *testing.T) {
	p, err := llava.Config{}.Processor()
	require.NoError(t, err)
	assert.Equal(t, int64(576), p.NumImageTokens(336, 336))
	p.ImageToken = "ß"
	s, spans, err := p.Expand("éßa ß bc", []int64{3, 2}, []text.Span{{Start: 0, End: 1}, {Start: 2, End: 3},
		{Start: 6, End: 8}})
	require.NoError(t, err)
	assert.Equal(t, "éßßßa ßß bc", s)
	runes := []rune(s)
	var got []string
	for _, span := range spans {
		got = append(got, string(runes[span.Start:span.End]))
	}
	assert.Equal(t, []string{"é", "a", "bc"}, got)
	assert.True(t, slices.IsSortedFunc(spans, func(a, b text.Span) int { return a.Start - b.Start }))
}
