package chat_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/chat"
)

// golden is the output of testdata/chat.py.
type golden struct {
	Special             map[string]string
	Variables           chat.Object
	Conversations       map[string]chat.Object
	Templates           map[string]map[string]outcome
	Expressions, Blocks [][2]json.RawMessage
	Folders             map[string]struct {
		Files, Special map[string]string
		Plain, Tools   outcome
	}
}

// outcome is a text, or an exception.
type outcome struct {
	Text           string
	Spans          spans
	Error, Message string
}

// spans are in characters.
type spans []text.Span

func (s *spans) UnmarshalJSON(content []byte) error {
	var pairs [][2]int
	err := json.Unmarshal(content, &pairs)
	for _, p := range pairs {
		*s = append(*s, text.Span{Start: p[0], End: p[1]})
	}
	return err
}

func load(t *testing.T) (g golden) {
	content, err := os.ReadFile("testdata/chat.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &g))
	return g
}

func clock() time.Time { return time.Date(2026, 7, 9, 4, 5, 6, 0, time.UTC) }

// check compares a text or an error. A Python error has the name of its exception.
func check(t *testing.T, name string, want outcome, got string, err error) {
	t.Helper()
	if want.Error == "" {
		if assert.NoError(t, err, "%s", name) {
			assert.Equal(t, want.Text, got, "%s", name)
		}
		return
	}
	assert.Error(t, err, "%s: want %s: %s", name, want.Error, want.Message)
}

func TestTemplatesAreTransformers(t *testing.T) {
	g := load(t)
	for file, outcomes := range g.Templates {
		content, err := os.ReadFile(filepath.Join("testdata/templates", file))
		require.NoError(t, err)
		tmpl, err := chat.Parse(string(content))
		require.NoError(t, err, file)
		tmpl.SpecialTokens, tmpl.Now = g.Special, clock
		for name, want := range outcomes {
			c := chat.Conversation{Variables: map[string]any{}}
			var o chat.Options
			given := g.Conversations[name]
			for _, key := range given.Names() {
				v, _ := given.Get(key)
				switch key {
				case "messages":
					for _, m := range v.([]any) {
						c.Messages = append(c.Messages, chat.Message{Object: m.(chat.Object)})
					}
				case "tools":
					c.Tools = v.([]any)
				case "documents":
					c.Documents = v.([]any)
				case "add_generation_prompt":
					o.AddGenerationPrompt = true
				case "continue_final_message":
					o.ContinueFinalMessage = "content"
					if field, ok := v.(string); ok {
						o.ContinueFinalMessage = field
					}
				default:
					c.Variables[key] = v
				}
			}
			got, err := tmpl.Render(c, o)
			check(t, file+" of "+name, want, got, err)
			if want.Spans != nil && o.ContinueFinalMessage == "" {
				_, spans, err := tmpl.RenderAssistant(c)
				require.NoError(t, err)
				assert.Equal(t, []text.Span(want.Spans), spans, "%s of %s", file, name)
			}
			if want.Error != "" {
				assert.ErrorContains(t, err, "chat: the template", "%s of %s", file, name)
			}
		}
	}
}

func TestExpressionsArePythons(t *testing.T) {
	g := load(t)
	variables := map[string]any{}
	for _, name := range g.Variables.Names() {
		variables[name], _ = g.Variables.Get(name)
	}
	c := chat.Conversation{Messages: []chat.Message{chat.User("")}, Variables: variables}
	for i, pair := range append(g.Expressions, g.Blocks...) {
		var source string
		var want outcome
		require.NoError(t, json.Unmarshal(pair[0], &source))
		require.NoError(t, json.Unmarshal(pair[1], &want))
		name := source
		if i < len(g.Expressions) {
			source = "{{ " + source + " }}"
		}
		tmpl, err := chat.Parse(source)
		got := ""
		if err == nil {
			tmpl.Now = clock
			got, err = tmpl.Render(c, chat.Options{})
		}
		check(t, name, want, got, err)
	}
}

func TestFoldersAreTransformers(t *testing.T) {
	for name, f := range load(t).Folders {
		dir := t.TempDir()
		for file, content := range f.Files {
			path := filepath.Join(dir, file)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		}
		special, err := chat.LoadSpecialTokens(dir)
		require.NoError(t, err, name)
		assert.Equal(t, f.Special, special, name)
		tmpl, err := chat.Load(dir)
		if errors.Is(err, os.ErrNotExist) {
			assert.Equal(t, "ValueError", f.Plain.Error, name)
			continue
		}
		require.NoError(t, err, name)
		assert.Equal(t, f.Special, tmpl.SpecialTokens, name)
		c := chat.Conversation{Messages: []chat.Message{chat.User("a")}}
		got, err := tmpl.Render(c, chat.Options{})
		check(t, name, f.Plain, got, err)
		c.Tools = []any{map[string]any{"type": "function"}}
		got, err = tmpl.Render(c, chat.Options{})
		check(t, name+" with tools", f.Tools, got, err)
	}
}
