package chat_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/chat"
)

// parse parses a template of testdata/templates.
func parse(t *testing.T, name string) *chat.Template {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata/templates", name))
	require.NoError(t, err)
	tmpl, err := chat.Parse(string(content))
	require.NoError(t, err)
	tmpl.SpecialTokens = map[string]string{"bos_token": "<s>", "eos_token": "</s>"}
	return tmpl
}

func talk(messages ...chat.Message) chat.Conversation { return chat.Conversation{Messages: messages} }

// said returns the parts of a conversation that the loss covers.
func said(t *testing.T, tmpl *chat.Template, c chat.Conversation) (parts []string) {
	t.Helper()
	s, spans, err := tmpl.RenderAssistant(c)
	require.NoError(t, err)
	whole, err := tmpl.Render(c, chat.Options{})
	require.NoError(t, err)
	require.Equal(t, whole, s)
	for _, span := range spans {
		parts = append(parts, string([]rune(s)[span.Start:span.End]))
	}
	return parts
}

func TestOnlyTheAssistantIsLearned(t *testing.T) {
	c := talk(chat.System("Hör zu."), chat.User("Grüß dich"), chat.Assistant("Größe 🦜 "), chat.User("Und?"),
		chat.Assistant("Gut."))
	for name, want := range map[string][]string{
		"turns.jinja":   {"Größe 🦜 <|end|>\n", "Gut.<|end|>\n"},
		"headers.jinja": {"Größe 🦜<|eot|>", "Gut.<|eot|>"},
		"marked.jinja":  {"Größe 🦜<|end|>", "Gut.<|end|>"},
	} {
		tmpl := parse(t, name)
		tmpl.Now = clock
		assert.Equal(t, want, said(t, tmpl, c), name)
		later := c
		later.Prompt = 3
		assert.Equal(t, want[1:], said(t, tmpl, later), "%s behind a prompt", name)
		later.Prompt = 4
		assert.Equal(t, want[1:], said(t, tmpl, later), "%s behind a prompt that ends with a question", name)
		later.Prompt = 5
		_, _, err := tmpl.RenderAssistant(later)
		require.ErrorContains(t, err, "the assistant says nothing in the 0 messages after the first 5", name)
		later.Prompt = 6
		_, _, err = tmpl.RenderAssistant(later)
		require.ErrorContains(t, err, "Conversation.Prompt is 6; want 0 to 5", name)
		_, _, err = tmpl.RenderAssistant(talk(c.Messages[:2]...))
		require.ErrorContains(t, err, `want a message of the role "assistant"`, name)
	}
	c = talk(chat.System("ü"), chat.User("é"), chat.Assistant("Größe"))
	_, spans, err := parse(t, "turns.jinja").RenderAssistant(c)
	require.NoError(t, err)
	assert.Equal(t, []text.Span{{Start: 64, End: 77}}, spans, "in characters")
}

// TestTemplatesThatRewriteAreRefused covers templates that drop the thoughts from all but the last
// answer, so that the rendered beginning of a conversation is not a prefix of the rest.
func TestTemplatesThatRewriteAreRefused(t *testing.T) {
	tmpl := parse(t, "thoughts.jinja")
	c := talk(chat.User("One"), chat.Assistant("<think>\nhm\n</think>\n\nTwo"), chat.User("Three"), chat.Assistant("Four"))
	_, _, err := tmpl.RenderAssistant(c)
	require.ErrorContains(t, err, "the conversation does not begin with its first 2 messages as the template \"default\" "+
		"writes them alone (generation prompt: false)")
	require.ErrorContains(t, err, "They differ at byte 34, ")
	require.ErrorContains(t, err, "{% generation %}")
	_, _, err = parse(t, "turns.jinja").RenderAssistant(talk(chat.Assistant("Hello"), chat.User("Hi")))
	require.ErrorContains(t, err, "the conversation begins with what the assistant says, and the template \"default\" "+
		"cannot write what stands before it")
	c.Prompt = 2
	assert.Equal(t, []string{"<think>\n\n</think>\n\nFour<|e|>\n"}, said(t, tmpl, c), "the last one is told")
	c.Variables = map[string]any{"enable_thinking": false}
	assert.Equal(t, []string{"Four<|e|>\n"}, said(t, tmpl, c))
}

func TestConversationsAreRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chats.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(`{"messages": [{"role": "user", "content": "Hi"}], "id": 7}

{"prompt": [{"role": "a"}], "completion": [{"role": "assistant", "content": null, "calls": [{"z": 1.0}]}]}
{"messages": [{"role": "user", "content": [{"type": "text", "text": "b"}]}], "tools": "[{\"z\": 1, \"a\": 2}]", "documents": [], "chat_template_kwargs": {"x": 1}}`),
		0o600))
	c, err := chat.ReadFile(path)
	require.NoError(t, err)
	require.Len(t, c, 3)
	assert.Equal(t, talk(chat.User("Hi")), c[0])
	assert.Equal(t, 1, c[1].Prompt)
	assert.Equal(t, []string{"role", "content", "calls"}, c[1].Messages[1].Names())
	content, err := json.Marshal(c[1].Messages[1])
	require.NoError(t, err)
	assert.Equal(t, `{"role":"assistant","content":null,"calls":[{"z":1.0}]}`,
		strings.ReplaceAll(string(content), "\n", ""), "fields keep their order, and numbers their form")
	assert.Nil(t, c[0].Tools)
	assert.NotNil(t, c[2].Documents)
	assert.Empty(t, c[2].Documents)
	assert.Equal(t, map[string]any{"x": json.Number("1")}, c[2].Variables)
	tmpl, err := chat.Parse("{{ tools|tojson }}{{ messages[0].content[0].text }}{{ x + 1 }}{{ documents }}")
	require.NoError(t, err)
	s, err := tmpl.Render(c[2], chat.Options{})
	require.NoError(t, err)
	assert.Equal(t, `[{"z": 1, "a": 2}]b2[]`, s)

	for line, want := range map[string]string{
		`{"messages": []}`:                                            "with at least one message",
		`{"text": "a"}`:                                               `want {"messages": [...]}`,
		`{"prompt": "a", "completion": "b"}`:                          "prompt is a text; want messages",
		`{"messages": [{"role": "user"}], "prompt": []}`:              "there are both messages and prompt",
		`{"messages": ["a"]}`:                                         "want an object of JSON",
		`{"messages": [{"role": "user"}], "tools": 5}`:                "tools: want a list, found 5",
		`{"messages": [{"role": "user"}], "tools": "[x"}`:             "tools: invalid character",
		`{"messages": [{"role": "user"}], "chat_template_kwargs": 5}`: "chat_template_kwargs: want an object",
		`{"messages": "a"}`:                                           "messages is a text; want messages, [{",
		`{"messages": {"role": "user"}}`:                              `messages is {"role": "user"}; want messages, [{`,
		`{"conversations": [], "id": 1}`:                              `found the fields ["conversations" "id"]`,
		`{}`:                                                          "found no fields",
		`not json`:                                                    "want a whole JSON object on each line (JSON Lines), found not json",
		`[{"messages": []}]`:                                          `on each line (JSON Lines), found [{"messages"`,
		`{"messages": [`:                                              `on each line (JSON Lines), found {"messages": [`,
		`{"messages": [{"role": "user", "content": ` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}]}`: "nest more than 200 deep",
	} {
		_, err := chat.Read(strings.NewReader("\n" + line + "\n"))
		require.ErrorContains(t, err, "chat: line 2: ", line)
		require.ErrorContains(t, err, want, line)
	}
	_, err = chat.ReadFile(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestValuesOfGo(t *testing.T) {
	tmpl, err := chat.Parse("{{ messages[0]|tojson }}{{ v|tojson }}")
	require.NoError(t, err)
	m := chat.User("a").With("n", 1).With("role", "tool").With("parts", []any{chat.Assistant("b"), json.RawMessage(`{"z": 1, "a": 1e2}`)})
	type schema struct {
		Name string  `json:"name"`
		Of   float64 `json:"of"`
	}
	c := talk(m)
	c.Variables = map[string]any{"v": []any{map[string]any{"b": int8(1), "a": 1.0}, &schema{"x", 0.5}, nil, true, "\xff"}}
	s, err := tmpl.Render(c, chat.Options{})
	require.NoError(t, err)
	assert.Equal(t, `{"role": "tool", "content": "a", "n": 1, "parts": [{"role": "assistant", "content": "b"}, {"z": 1, "a": 100.0}]}`+
		`[{"a": 1.0, "b": 1}, {"name": "x", "of": 0.5}, null, true, "`+"\uFFFD"+`"]`, s)
	assert.Equal(t, "user", chat.User("a").Role())
	assert.Equal(t, "a", chat.User("a").Content())

	for want, v := range map[string]any{
		"does not fit into 64 bits": json.Number("92233720368547758070"),
		"unsupported type":          func() {},
	} {
		c.Variables = map[string]any{"v": v}
		_, err = tmpl.Render(c, chat.Options{})
		require.ErrorContains(t, err, `the variable "v": `)
		require.ErrorContains(t, err, want)
	}
	var loop []any
	loop = append(loop, nil)
	loop[0] = loop
	c.Variables = map[string]any{"v": loop}
	_, err = tmpl.Render(c, chat.Options{})
	require.ErrorContains(t, err, "nest more than 200 deep")
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	tmpl := parse(t, "turns.jinja")
	both := chat.Options{AddGenerationPrompt: true, ContinueFinalMessage: "content"}
	for want, f := range map[string]func() (string, error){
		"has no messages":  func() (string, error) { return tmpl.Render(talk(), chat.Options{}) },
		"want one at most": func() (string, error) { return tmpl.Render(talk(chat.User("a")), both) },
		`has no "x" to continue`: func() (string, error) {
			return tmpl.Render(talk(chat.User("a")), chat.Options{ContinueFinalMessage: "x"})
		},
		`does not look at "x"`: func() (string, error) {
			return tmpl.Render(talk(chat.User("a").With("x", "b")), chat.Options{ContinueFinalMessage: "x"})
		},
		"has no text to continue": func() (string, error) {
			return tmpl.Render(talk(chat.User("a").With("content", []any{1})), chat.Options{ContinueFinalMessage: "content"})
		},
		"does not write the last message as it is": func() (string, error) {
			upper, err := chat.Parse("{{ messages[0].content | upper }}")
			require.NoError(t, err)
			return upper.Render(talk(chat.User("a")), chat.Options{ContinueFinalMessage: "content"})
		},
		`"messages", which has a field of its own`: func() (string, error) {
			c := talk(chat.User("a"))
			c.Variables = map[string]any{"messages": 1}
			return tmpl.Render(c, chat.Options{})
		},
	} {
		_, err := f()
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, `chat: the template "default": `)
	}
	_, err := chat.Parse("a\n{{")
	require.ErrorContains(t, err, "chat: the template: line 2: TemplateSyntaxError")
}

// TestSavedIsLoaded also checks that files of an earlier template are removed.
func TestSavedIsLoaded(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "tokenizer_config.json")
	require.NoError(t, os.WriteFile(config, []byte(`{"z": "<é>", "chat_template": [{"name": "default", "template": "D"},
		{"name": "rag", "template": "{{ broken"}], "eos_token": "</s>", "n": 1e30}`), 0o600))
	several, err := chat.Load(dir)
	require.NoError(t, err)
	assert.Equal(t, []string{"default", "rag"}, several.Names())
	assert.Equal(t, "D", several.String())
	rag, err := several.Named("rag")
	require.NoError(t, err)
	_, err = rag.Render(talk(chat.User("a")), chat.Options{})
	require.ErrorContains(t, err, "TemplateSyntaxError")
	_, err = several.Named("x")
	require.ErrorContains(t, err, `there is no template "x"; the names are ["default" "rag"]`)

	require.NoError(t, several.Save(dir))
	content, err := os.ReadFile(config)
	require.NoError(t, err)
	assert.Equal(t, "{\n  \"z\": \"<é>\",\n  \"eos_token\": \"</s>\",\n  \"n\": 1e30\n}\n", string(content))
	assert.FileExists(t, filepath.Join(dir, "additional_chat_templates", "rag.jinja"))
	again, err := chat.Load(dir)
	require.NoError(t, err)
	assert.Equal(t, several.Names(), again.Names())
	assert.Equal(t, several.SpecialTokens, again.SpecialTokens)

	other := t.TempDir()
	require.NoError(t, rag.Save(other))
	require.NoError(t, chat.CopyFiles(dir, other))
	again, err = chat.Load(other)
	require.NoError(t, err)
	assert.Equal(t, several.Names(), again.Names())
	require.NoError(t, rag.Save(dir))
	again, err = chat.Load(dir)
	require.NoError(t, err)
	assert.Equal(t, "{{ broken", again.String(), "the others are gone")
	require.NoError(t, chat.CopyFiles(dir, dir))
	assert.FileExists(t, filepath.Join(dir, "chat_template.jinja"))
	var none *chat.Template
	require.NoError(t, none.Save(dir))
	_, err = chat.Load(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "has no chat template; want chat_template.jinja")

	for content, want := range map[string]string{
		`{"chat_template": 5}`:                              "want a text, or a list of names and templates",
		`{"chat_template": [{"name": "a"}, {"name": "a"}]}`: `has two templates of the name "a"`,
		`{`:                                      "unexpected end of JSON",
		`{"chat_template": "a", "bos_token": 5}`: "bos_token of tokenizer_config.json",
		`{"chat_template": "a", "tokenizer_class": 5}`: "tokenizer_class",
	} {
		require.NoError(t, os.WriteFile(config, []byte(content), 0o600))
		_, err := chat.Load(dir)
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, os.WriteFile(config, []byte(`{"chat_template": [{"name": "../x", "template": ""}]}`), 0o600))
	bad, err := chat.Load(dir)
	require.NoError(t, err)
	require.ErrorContains(t, bad.Save(t.TempDir()), `"../x", cannot be a file name`)
}
