package chat_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/text/chat"
)

func preference(t *testing.T, line string) chat.Preference {
	t.Helper()
	list, err := chat.ReadPreferences(strings.NewReader("\n" + strings.ReplaceAll(line, "\n", " ") + "\n\n"))
	require.NoError(t, err)
	require.Len(t, list, 1)
	return list[0]
}

func TestPreferencesAreThoseOfTRL(t *testing.T) {
	p := preference(t, `{"prompt": "a", "chosen": " b", "rejected": "", "score": 1}`)
	assert.Equal(t, chat.Preference{Prompt: chat.Content{Text: "a"}, Chosen: chat.Content{Text: " b"}}, p)
	assert.False(t, p.IsChat())
	assert.InDelta(t, 1.5, preference(t, `{"chosen": "a", "rejected": "b", "margin": 1.5}`).Margin, 0)
	assert.Zero(t, preference(t, `{"chosen": "a", "rejected": "b", "margin": null}`).Margin)

	p = preference(t, `{"prompt": [{"role": "user", "content": "a"}], "chosen": [{"role": "assistant", "content": "b"}],
		"rejected": [{"role": "assistant", "content": "c"}], "tools": "[1]", "chat_template_kwargs": {"think": true}}`)
	assert.True(t, p.IsChat())
	c := p.Conversation(p.Rejected)
	assert.Equal(t, []chat.Message{chat.User("a"), chat.Assistant("c")}, c.Messages)
	assert.Equal(t, 1, c.Prompt)
	assert.Equal(t, map[string]any{"think": true}, c.Variables)
	assert.Len(t, c.Tools, 1)
	assert.Equal(t, []chat.Message{chat.User("a")}, p.Conversation(chat.Content{}).Messages)
}

// TestAPromptIsWhatAnswersBeginWith tests preferences without an explicit prompt.
func TestAPromptIsWhatAnswersBeginWith(t *testing.T) {
	for line, want := range map[string][3]string{
		`{"chosen": "the red fox", "rejected": "the red hen"}`: {"the red", " fox", " hen"},
		`{"chosen": "größer", "rejected": "größte"}`:           {"größ", "er", "te"},
		`{"chosen": "ab", "rejected": "abc"}`:                  {"a", "b", "bc"},
		`{"chosen": "a b", "rejected": "a c"}`:                 {"a", " b", " c"},
		`{"chosen": "x ", "rejected": "y "}`:                   {"", "x ", "y "},
		`{"chosen": "", "rejected": "y"}`:                      {"", "", "y"},
		`{"chosen": "same", "rejected": "same"}`:               {"sam", "e", "e"},
	} {
		p := preference(t, line)
		assert.Equal(t, want, [3]string{p.Prompt.Text, p.Chosen.Text, p.Rejected.Text}, line)
	}
	p := preference(t, `{"chosen": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
		"rejected": [{"content": "a", "role": "user"}, {"role": "assistant", "content": "c"}]}`)
	assert.Equal(t, []chat.Message{chat.User("a")}, p.Prompt.Messages)
	assert.Equal(t, []chat.Message{chat.Assistant("b")}, p.Chosen.Messages)
	assert.Equal(t, []chat.Message{chat.Assistant("c")}, p.Rejected.Messages)
}

func TestPreferencesThatAreNoneAreRefused(t *testing.T) {
	for line, want := range map[string]string{
		`{"prompt": "a", "chosen": "b"}`:                                      "there is no rejected; want a text, or messages",
		`{"prompt": 1, "chosen": "b", "rejected": "c"}`:                       `prompt is 1; want a text, or messages`,
		`{"prompt": "a", "chosen": [{"role": "assistant"}], "rejected": "c"}`: "prompt is a text, chosen is a list of messages, and rejected is a text; want",
		`{"chosen": [{"role": "assistant"}], "rejected": "c"}`:                "line 1: chosen is a list of messages, and rejected is a text; want",
		`{"prompt": [], "chosen": [], "rejected": []}`:                        "chosen has no messages; want at least one",
		`{"prompt": [], "chosen": [1], "rejected": []}`:                       "chosen: ",
		`{"chosen": "a", "rejected": "b", "tools": 1}`:                        "tools: want a list",
		`{"chosen": "a", "rejected": "b", "chat_template_kwargs": 1}`:         "chat_template_kwargs: want an object",
		`{"chosen": "a", "rejected": "b", "margin": "1"}`:                     "margin of type float64",
		`{"prompt": [], "chosen": "b", "rejected": "c"}`:                      "prompt is a list of messages, chosen is a text, and",
		`[]`: "want a whole JSON object on each line",
	} {
		_, err := chat.ReadPreferences(strings.NewReader(line))
		require.ErrorContains(t, err, "chat: line 1: ", line)
		require.ErrorContains(t, err, want, line)
	}
	_, err := chat.ReadPreferencesFile("none.jsonl")
	require.ErrorContains(t, err, "none.jsonl")
}
