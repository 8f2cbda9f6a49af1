package chat_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/text/chat"
)

// TestWithImagesWritesParts: strings become parts, and images stand before the first text of the
// user, as in prepare_multimodal_messages of TRL.
func TestWithImagesWritesParts(t *testing.T) {
	c := chat.Conversation{Messages: []chat.Message{chat.System("Be brief."), chat.User("What is this?"),
		chat.Assistant("A fox."), chat.User("And this?")}}
	made, err := chat.WithImages(c, 2)
	require.NoError(t, err)
	content, err := json.Marshal(made.Messages)
	require.NoError(t, err)
	assert.JSONEq(t, `[{"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
		{"role": "user", "content": [{"type": "image"}, {"type": "image"}, {"type": "text", "text": "What is this?"}]},
		{"role": "assistant", "content": [{"type": "text", "text": "A fox."}]},
		{"role": "user", "content": [{"type": "text", "text": "And this?"}]}]`, string(content))
	assert.Equal(t, "What is this?", c.Messages[1].Content(), "the argument is as it was")
	again, err := chat.WithImages(made, 2)
	require.NoError(t, err)
	same, err := json.Marshal(again.Messages)
	require.NoError(t, err)
	assert.JSONEq(t, string(content), string(same))
	_, err = chat.WithImages(made, 1)
	require.ErrorContains(t, err, "chat: the conversation has 2 image parts, and there are 1 images")
	_, err = chat.WithImages(chat.Conversation{Messages: []chat.Message{chat.User("").With("content",
		[]any{map[string]any{"type": "image", "path": "fox.png"}})}}, 1)
	require.ErrorContains(t, err, `chat: message 0: part 0 has "path"; open the image (vision.Open)`)
}

// TestTemplatesOfOlderProcessorsLoad: chat_template.json comes after the other files, and before
// tokenizer_config.json.
func TestTemplatesOfOlderProcessorsLoad(t *testing.T) {
	dir, second := t.TempDir(), t.TempDir()
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	write("tokenizer_config.json", `{"chat_template": "of the tokenizer"}`)
	write(chat.OlderFileName, `{"chat_template": "of the processor"}`)
	older, err := chat.Load(dir)
	require.NoError(t, err)
	assert.Equal(t, "of the processor", older.String())
	require.NoError(t, chat.CopyFiles(dir, second))
	copied, err := chat.Load(second)
	require.NoError(t, err)
	assert.Equal(t, "of the processor", copied.String())
	write(chat.FileName, "of the file")
	newer, err := chat.Load(dir)
	require.NoError(t, err)
	assert.Equal(t, "of the file", newer.String())
	require.NoError(t, newer.Save(dir))
	assert.NoFileExists(t, filepath.Join(dir, chat.OlderFileName))
	write(chat.OlderFileName, "{")
	require.NoError(t, os.Remove(filepath.Join(dir, chat.FileName)))
	_, err = chat.Load(dir)
	require.ErrorContains(t, err, chat.OlderFileName)
}
