package generatetest_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/gpt2"
	"github.com/gotrainer/gotrainer/models/t5"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
)

// fox returns a tokenizer with a few words.
func fox(t *testing.T) *text.Tokenizer {
	t.Helper()
	tok, err := text.TrainByteLevel(slices.Values([]string{"the quick brown fox jumps over the lazy dog"}),
		text.TrainOptions{VocabSize: 280})
	require.NoError(t, err)
	return tok
}

// TestOneTextIsReturnedOfEachPrompt: methods that return one text ignore num_return_sequences.
func TestOneTextIsReturnedOfEachPrompt(t *testing.T) {
	r := load(t)
	m := r.Models[2]
	m.Config["vocab_size"] = 280
	w := m.withFile(t, `{"do_sample": true, "num_return_sequences": 3, "max_new_tokens": 4, "eos_token_id": [-1]}`)
	lm := auto.CausalLanguageModel{Model: w.Model}
	lm.Tokenizer = fox(t)
	one, err := lm.GenerateIDs(t.Context(), r.Prompts[0], auto.Generation{})
	require.NoError(t, err)
	assert.Len(t, one, 4, "a single text, despite the file")
	all, err := lm.GenerateBatch(t.Context(), []string{"the", "a dog"}, auto.Generation{})
	require.NoError(t, err)
	assert.Len(t, all, 6)

	const want = "NumReturnSequences is 2; want 1, since one text is returned of each prompt here"
	g := auto.Generation{NumReturnSequences: 2}
	_, err = lm.Generate(t.Context(), "the", g)
	require.ErrorContains(t, err, want)
	pair, err := auto.NewSeq2SeqLM(t5.Config{VocabSize: 280, HiddenSize: 16, NumLayers: 1}, lm.Tokenizer)
	require.NoError(t, err)
	_, err = pair.Generate(t.Context(), "the", g)
	require.ErrorContains(t, err, want)
	_, err = pair.Writer(g)
	require.ErrorContains(t, err, want)
}

// TestAStreamEndsWithTheString: the stream includes the stop string and the rest of its last token.
func TestAStreamEndsWithTheString(t *testing.T) {
	tok := fox(t)
	torch.ManualSeed(1)
	lm, err := auto.NewCausalLM(gpt2.Config{VocabSize: int64(tok.VocabSize()), MaxPositions: 256, HiddenSize: 16,
		NumLayers: 1, NumHeads: 2}, tok)
	require.NoError(t, err)
	for range 5 {
		var parts []string
		whole, err := lm.Generate(t.Context(), "the", auto.Generation{MaxNewTokens: 250, Sample: true, TopK: -1,
			EOSTokenIDs: []int64{}, StopStrings: []string{"o", "ck"}, Stream: func(s string) { parts = append(parts, s) }})
		require.NoError(t, err)
		assert.Equal(t, whole, strings.Join(parts, ""))
		at := strings.IndexAny(whole, "o")
		if ck := strings.Index(whole, "ck"); ck >= 0 && (at < 0 || ck < at) {
			at = ck
		}
		require.GreaterOrEqual(t, at, 0, whole)
		assert.Greater(t, at, len(whole)-len("quick "), whole)
	}
}
