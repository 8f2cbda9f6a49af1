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
		`{"prompt": "a", "completion": "b", "label": 1}`:                "label is 1; want true for a good completion",
		`{"completion": "b", "label": true}`:                            `there is no prompt; want a text, or messages`,
		`{"prompt": "a", "label": true}`:                                `there is no completion; want a text, or messages`,
		`{"prompt": "a", "completion": [{"role": "a"}], "label": true}`: "prompt is a text, and completion is a list of messages; want",
		`{"prompt": [], "completion": [], "label": true}`:               "completion has no messages",
		`{"prompt": "a", "completion": "b", "label": true, "tools": 1}`: "tools: want a list",
		`{"prompt": "a", "completion": "b", "label": "good"}`:           `label is "good"; want true`,
		`{"prompt": "a", "completion": "b", "label": null}`:             "label is null; want true",
		`[]`: "want a whole JSON object on each line",
	} {
		_, err := chat.ReadUnpairedPreferences(strings.NewReader(line))
		require.ErrorContains(t, err, "chat: line 1: ", line)
		require.ErrorContains(t, err, want, line)
	}
	_, err := chat.ReadUnpairedPreferencesFile("none.jsonl")
	require.ErrorContains(t, err, "none.jsonl")
}
