package auto

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzGenerationFile checks that any file content is either decoded or refused, and that the
// resulting settings are checked.
func FuzzGenerationFile(f *testing.F) {
	for _, text := range []string{`{}`, `[]`, `{`, `{"eos_token_id": [1, 2], "max_length": 20, "min_length": 3}`,
		`{"do_sample": true, "top_k": 0, "top_p": 0.9, "min_p": 0.1}`, `{"early_stopping": "never", "num_beams": 2}`,
		`{"stop_strings": "end", "forced_eos_token_id": 1}`,
		`{"forced_bos_token_id": 3}`, `{"bad_words_ids": [[1]]}`, `{"num_beams": -1, "length_penalty": 0}`, `{"decoder_start_token_id": 9}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var file generationFile
		if file.decode(text) != nil {
			return
		}
		said := Generation{MaxNewTokens: 7, MinNewTokens: 2, Greedy: true, NumBeams: 1, RepetitionPenalty: 1.5,
			NoRepeatNGramSize: 3, EOSTokenIDs: []int64{4}, ForcedBOSTokenID: new(int64(5)), ForcedEOSTokenIDs: []int64{},
			SuppressTokens:      []int64{},
			BeginSuppressTokens: []int64{}, BadWordsIDs: [][]int64{}, StopStrings: []string{}}
		got, err := said.withFile(file, 5)
		require.NoError(t, err)
		got.start = said.start // which only the file sets
		assert.Equal(t, said, got, "fields that are set win")
	})
}
