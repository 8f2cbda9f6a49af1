package auto

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/text"
)

func tinyTokenizer(t *testing.T, name string) *text.Tokenizer {
	t.Helper()
	tok, err := text.LoadTokenizer(filepath.Join("..", "..", "text", "testdata", "tiny", name+".json"))
	require.NoError(t, err)
	return tok
}

// TestStringsStopTextsWhereTheyDoInTransformers uses tokens that are bytes, parts of characters,
// and words.
func TestStringsStopTextsWhereTheyDoInTransformers(t *testing.T) {
	content, err := os.ReadFile("testdata/stop.json")
	require.NoError(t, err)
	var recorded map[string][]struct {
		IDs   []int64
		Stops []string
		At    []int
	}
	require.NoError(t, json.Unmarshal(content, &recorded))
	require.Len(t, recorded, 6)
	for name, cases := range recorded {
		t.Run(name, func(t *testing.T) {
			goldencount.Start(t, "models", t.Name())
			m := &Model{Tokenizer: tinyTokenizer(t, name)}
			for _, c := range cases {
				s, err := m.stopAt(c.Stops)
				require.NoError(t, err)
				var at []int
				for n := 1; n <= len(c.IDs); n++ {
					if s.stops(c.IDs[:n]) {
						at = append(at, n)
					}
				}
				assert.ElementsMatch(t, c.At, at, "%q in %q", c.Stops, m.Tokenizer.Decode(c.IDs, nil))
			}
		})
	}
}

func TestStringsThatCannotBeFoundAreRefused(t *testing.T) {
	s, err := new(Model).stopAt(nil)
	require.NoError(t, err)
	assert.False(t, s.stops([]int64{1}), "nothing stops without strings")
	_, err = new(Model).stopAt([]string{"end"})
	require.ErrorContains(t, err, "no tokenizer; set Model.Tokenizer, which Generation.StopStrings are found by")
	words, err := text.ParseTokenizer([]byte(`{"version": "1.0", "model": {"type": "WordLevel", "vocab": {"a": 0, "?": 1}, ` +
		`"unk_token": "?"}}`))
	require.NoError(t, err)
	_, err = (&Model{Tokenizer: words}).stopAt([]string{"a"})
	require.ErrorContains(t, err, `the tokenizer makes "?" of "abcdef"`)
}
