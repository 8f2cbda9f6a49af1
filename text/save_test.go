package text_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/models"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
	"github.com/gotrainer/gotrainer/text/processors"
)

// TestSavedTokenizersAreThemselvesInPython covers settings that transformers would otherwise choose
// by the model's class: it would lowercase a cased tokenizer and omit the space before a text.
// scripts/auto_interop.py tests this with transformers.
func TestSavedTokenizersAreThemselvesInPython(t *testing.T) {
	read := func(dir string) (c map[string]any) {
		file, err := os.ReadFile(filepath.Join(dir, "tokenizer_config.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(file, &c))
		return c
	}
	bert, err := text.NewBert(map[string]int64{"[PAD]": 0, "[UNK]": 1, "<s>": 2, "[SEP]": 3, "[MASK]": 4, "In": 5},
		text.BertOptions{Cased: true, Cls: "<s>"})
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "new")
	require.NoError(t, bert.Save(dir))
	assert.Equal(t, map[string]any{
		"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]",
		"cls_token": "<s>", "mask_token": "[MASK]", "bos_token": "<s>",
		"model_input_names": []any{"input_ids", "token_type_ids", "attention_mask"},
	}, read(dir))

	vocab := map[string]int64{"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4, "a": 5}
	m, err := models.NewBPE(vocab, nil, models.BPEOptions{})
	require.NoError(t, err)
	roberta, err := text.New(text.Config{
		Model: m, PreTokenizer: pretokenizers.ByteLevel{UseRegex: true},
		AddedTokens: text.SpecialTokens("<s>", "<pad>", "</s>", "<unk>", "<mask>"),
		PostProcessor: processors.RobertaProcessing{Cls: processors.SpecialToken{Token: "<s>", ID: 0},
			Sep: processors.SpecialToken{Token: "</s>", ID: 2}},
	})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(`{
		"tokenizer_class": "RobertaTokenizer", "model_max_length": 1000000000000000019884624838656,
		"truncation_side": "left", "add_prefix_space": true, "sep_token": "[SEP]", "cls_token": null,
		"mask_token": {"content": "<mask>", "lstrip": true}, "added_tokens_decoder": {"4": {"content": "other"}}}`), 0o600))
	require.NoError(t, roberta.Save(dir))
	file, err := os.ReadFile(filepath.Join(dir, "tokenizer_config.json"))
	require.NoError(t, err)
	assert.Contains(t, string(file), `"model_max_length": 1000000000000000019884624838656`)
	c := read(dir)
	delete(c, "model_max_length")
	assert.Equal(t, map[string]any{
		"tokenizer_class": "PreTrainedTokenizerFast", "truncation_side": "left", "add_prefix_space": false,
		"unk_token": "<unk>", "sep_token": "</s>", "pad_token": "<pad>", "cls_token": "<s>", "bos_token": "<s>",
		"eos_token": "</s>", "mask_token": map[string]any{"content": "<mask>", "lstrip": true},
		"model_input_names": []any{"input_ids", "attention_mask"},
	}, c)

	config := filepath.Join(dir, "tokenizer_config.json")
	require.NoError(t, os.WriteFile(config, []byte(`{"mask_token": 4}`), 0o600))
	require.ErrorContains(t, roberta.Save(dir), config+": mask_token")
}
