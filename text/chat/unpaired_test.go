package chat_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/text/chat"
)

func TestUnpairedPreferencesAreThoseOfTRL(t *testing.T) {
	list, err := chat.ReadUnpairedPreferences(strings.NewReader(`{"prompt": "a", "completion": " b", "label": true, "x": 1}

{"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "b"}], "label": false,` +
		` "tools": "[1]", "chat_template_kwargs": {"think": true}}`))
	require.NoError(t, err)
	assert.Equal(t, []chat.UnpairedPreference{
		{Prompt: chat.Content{Text: "a"}, Completion: chat.Content{Text: " b"}, Label: true},
		{Prompt: chat.Content{Messages: []chat.Message{chat.User("a")}},
			Completion: chat.Content{Messages: []chat.Message{chat.Assistant("b")}},
			Tools:      list[1].Tools, Variables: map[string]any{"think": true}},
	}, list)
	assert.Len(t, list[1].Tools, 1)
}

func TestUnpairedPreferencesThatAreNoneAreRefused(t *testing.T) {
	for line, want := range map[string]string{
		`{"prompt": "a", "completion": "b"}`:                            "there is no label; want true",
		`{"prompt": "a", "completion": "b", "label": 1}`:                "label of type bool",
		`{"completion": "b", "label": true}`:                            `prompt is ""; want a text, or messages`,
		`{"prompt": "a", "label": true}`:                                `completion is ""; want a text, or messages`,
		`{"prompt": "a", "completion": [{"role": "a"}], "label": true}`: "completion is a list of messages, other than the prompt",
		`{"prompt": [], "completion": [], "label": true}`:               "completion has no messages",
		`{"prompt": "a", "completion": "b", "label": true, "tools": 1}`: "tools: want a list",
		`[]`: "cannot unmarshal array",
	} {
		_, err := chat.ReadUnpairedPreferences(strings.NewReader(line))
		require.ErrorContains(t, err, "chat: line 1: ", line)
		require.ErrorContains(t, err, want, line)
	}
	_, err := chat.ReadUnpairedPreferencesFile("none.jsonl")
	require.ErrorContains(t, err, "none.jsonl")
}
