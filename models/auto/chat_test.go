package auto_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/text/chat"
	"github.com/gotrainer/gotrainer/torch"
)

// chatGolden is the output of testdata/chat.py.
type chatGolden struct {
	Conversations [][]chat.Message
	Templates     map[string][]struct {
		IDs, Mask []int64
		Prompt    int
	}
	Files map[string]string
}

func loadChatGolden(t *testing.T) (g chatGolden) {
	content, err := os.ReadFile("testdata/chat.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &g))
	return g
}

// template returns the source of one of package chat's templates.
func template(t *testing.T, name string) string {
	content, err := os.ReadFile(filepath.Join("../../text/chat/testdata/templates", name+".jinja"))
	require.NoError(t, err)
	return string(content)
}

// chatFolder returns the folder of a model with the golden tokenizer and the given files.
func chatFolder(t *testing.T, files map[string]string) string {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	config := `{"model_type": "llama", "vocab_size": 268, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1,
		"num_attention_heads": 2, "max_position_embeddings": 256, "initializer_range": 0.5, "eos_token_id": 40}`
	write := func(files map[string]string) {
		for name, content := range files {
			path := filepath.Join(dir, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		}
	}
	write(map[string]string{"config.json": config})
	write(loadChatGolden(t).Files)
	write(files)
	return dir
}

func chatModel(t *testing.T, dir string) *auto.CausalLanguageModel {
	torch.ManualSeed(1)
	m, err := auto.CausalLM(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard})
	require.NoError(t, err)
	return m
}

func TestConversationsAreTransformersSamples(t *testing.T) {
	g := loadChatGolden(t)
	for name, rows := range g.Templates {
		m := chatModel(t, chatFolder(t, map[string]string{"chat_template.jinja": template(t, name)}))
		for i, want := range rows {
			c := chat.Conversation{Messages: g.Conversations[i]}
			mask := want.Mask
			if name != "marked" { // in TRL's way, the completion is what follows the tokens of the prompt
				c.Prompt = len(c.Messages) - 1
				mask = make([]int64, len(want.IDs))
				for i := want.Prompt; i < len(mask); i++ {
					mask[i] = 1
				}
			}
			s, err := m.EncodeChat(c)
			require.NoError(t, err)
			labels := make([]int64, len(mask))
			for j, learned := range mask {
				if labels[j] = inputs.IgnoreIndex; learned != 0 {
					labels[j] = want.IDs[j]
				}
			}
			assert.Equal(t, want.IDs, s.InputIDs, "%s, conversation %d", name, i)
			assert.Equal(t, labels, s.Labels, "%s, conversation %d", name, i)
			from, to := s.Answer()
			assert.Contains(t, m.Tokenizer.Decode(s.InputIDs[from:to], nil), s.Target)
			assert.NotContains(t, s.Target, "</s>")
			if last := g.Conversations[i][len(g.Conversations[i])-1]; last.Role() == "assistant" {
				assert.Equal(t, strings.TrimSpace(last.Content()), strings.TrimSpace(s.Target), "%s, conversation %d", name, i)
			}
		}
	}
}

func TestLongConversationsAreCut(t *testing.T) {
	m := chatModel(t, chatFolder(t, map[string]string{"chat_template.jinja": template(t, "marked")}))
	long := chat.Say("user", string(make([]byte, 300)))
	s, err := m.EncodeChat(chat.Conversation{Messages: []chat.Message{long, chat.Assistant("a")}})
	require.NoError(t, err)
	assert.Len(t, s.InputIDs, 256)
	assert.Len(t, s.Labels, 256)
	for _, label := range s.Labels {
		require.EqualValues(t, inputs.IgnoreIndex, label)
	}
}

func TestChatTemplatesSurviveSaving(t *testing.T) {
	list := `{"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": [{"name": "default", "template": "D"},
		{"name": "rag", "template": "R"}], "eos_token": "</s>"}`
	for name, files := range map[string]map[string]string{
		"in the configuration": {"tokenizer_config.json": list},
		"in a file":            {"chat_template.jinja": "{{ bos_token }}<é>\r\n\n"},
		"in files":             {"chat_template.jinja": "F", "additional_chat_templates/rag.jinja": "R"},
		"broken":               {"chat_template.jinja": "{{"},
	} {
		m := chatModel(t, chatFolder(t, files))
		out := t.TempDir()
		// Files of a previous model in that folder do not interfere.
		require.NoError(t, os.WriteFile(filepath.Join(out, "chat_template.jinja"), []byte("old"), 0o600))
		for range 2 {
			require.NoError(t, m.Save(out))
			for file, content := range files {
				saved, err := os.ReadFile(filepath.Join(out, file))
				require.NoError(t, err, "%s: %s", name, file)
				assert.Equal(t, content, string(saved), "%s: %s", name, file)
			}
		}
		again := chatModel(t, out)
		assert.Equal(t, m.ChatTemplate.Names(), again.ChatTemplate.Names(), name)
		assert.Equal(t, m.ChatTemplate.String(), again.ChatTemplate.String(), name)

		tok, err := m.Tokenizer.WithPadding(nil)
		require.NoError(t, err)
		m.Tokenizer = tok
		m.ChatTemplate, err = chat.Parse("N{{ eos_token }}")
		require.NoError(t, err)
		require.NoError(t, m.Save(out))
		again = chatModel(t, out)
		assert.Equal(t, []string{"default"}, again.ChatTemplate.Names(), name)
		assert.Equal(t, "N{{ eos_token }}", again.ChatTemplate.String(), name)
		assert.Equal(t, "</s>", again.ChatTemplate.SpecialTokens["eos_token"], name)

		m.ChatTemplate = nil
		require.NoError(t, m.Save(out))
		assert.Nil(t, chatModel(t, out).ChatTemplate, name)
	}
}

func TestAnswersAreWhatFollowsTheGenerationPrompt(t *testing.T) {
	dir := chatFolder(t, map[string]string{"chat_template.jinja": template(t, "marked")})
	m := chatModel(t, dir)
	c := chat.Conversation{Messages: []chat.Message{chat.User("a b")}}
	g := auto.Generation{MaxNewTokens: 12, EOSTokenIDs: []int64{}}
	ids, err := m.EncodeChat(chat.Conversation{Messages: append(c.Messages, chat.Assistant("a"))})
	require.NoError(t, err)
	prompt := ids.InputIDs[:len(ids.InputIDs)-3] // without the answer, its end token and the newline
	added, err := m.GenerateIDs(t.Context(), prompt, g)
	require.NoError(t, err)
	require.Len(t, added, 12)
	got, err := m.Chat(t.Context(), c, g)
	require.NoError(t, err)
	assert.Equal(t, m.Tokenizer.Decode(added, nil), got)

	// A started answer of the assistant is continued.
	beginning := chat.Conversation{Messages: append(c.Messages, chat.Assistant("a"))}
	more, err := m.GenerateIDs(t.Context(), ids.InputIDs[:len(prompt)+1], g)
	require.NoError(t, err)
	got, err = m.Chat(t.Context(), beginning, g)
	require.NoError(t, err)
	assert.Equal(t, m.Tokenizer.Decode(more, nil), got)

	// Generation ends at the tokens that config.json, the tokenizer or generation_config.json
	// define.
	end := added[3]
	first := 0
	for added[first] != end {
		first++
	}
	want := m.Tokenizer.Decode(added[:first+1], nil)
	g.EOSTokenIDs = nil
	for _, eos := range []string{fmt.Sprintf("[%d]", end), fmt.Sprint(end)} {
		path := filepath.Join(dir, "generation_config.json")
		require.NoError(t, os.WriteFile(path, []byte(`{"eos_token_id": `+eos+`}`), 0o600))
		got, err = m.Chat(t.Context(), c, g)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		require.NoError(t, os.WriteFile(path, []byte(`{"eos_token_id": "x"}`), 0o600))
		_, err = m.Chat(t.Context(), c, g)
		require.ErrorContains(t, err, `eos_token_id is "x"; want a number, several, or null`)
		require.NoError(t, os.Remove(path))
	}
	token, ok := m.Tokenizer.IDToToken(end)
	require.True(t, ok)
	m.ChatTemplate.SpecialTokens["eos_token"] = token
	got, err = m.Chat(t.Context(), c, g)
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestModelsWithoutATemplateDoNotChat(t *testing.T) {
	m := chatModel(t, chatFolder(t, nil))
	c := chat.Conversation{Messages: []chat.Message{chat.User("a"), chat.Assistant("b")}}
	const want = "the model has no chat template, so that it was not made for conversations; want chat_template.jinja"
	_, err := m.EncodeChat(c)
	require.ErrorContains(t, err, want)
	_, err = m.Chat(t.Context(), c, auto.Generation{})
	require.ErrorContains(t, err, want)

	m.ChatTemplate, err = chat.Parse("{{ bos_token }}{{ messages|length }}{% if add_generation_prompt %}:{% endif %}")
	require.NoError(t, err)
	s, err := m.ChatTemplate.Render(c, chat.Options{})
	require.NoError(t, err)
	assert.Equal(t, "2", s)
	_, err = m.EncodeChat(c)
	require.ErrorContains(t, err, `auto: chat: what the assistant says cannot be told`)
	require.ErrorContains(t, err, "They differ at byte 3, ", "one without special tokens has the folder's")
	m.Tokenizer = nil
	_, err = m.Chat(t.Context(), c, auto.Generation{})
	require.ErrorContains(t, err, "has no tokenizer")
}
