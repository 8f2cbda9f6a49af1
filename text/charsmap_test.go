package text

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/text/normalizers"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
)

// charsmapFile is the content of testdata/charsmap.json, written by testdata/charsmap.py.
type charsmapFile struct {
	Alphabet   string
	Components map[string]struct {
		Pipeline struct {
			Normalizer   json.RawMessage `json:"normalizer"`
			PreTokenizer json.RawMessage `json:"pre_tokenizer"`
		} `json:"pipeline"`
		Random, Points, Clusters []string
	}
	Tokenizers map[string]struct {
		Tokenizer json.RawMessage
		Cases     []struct {
			Text     string
			Encoding struct {
				IDs     []int64 `json:"ids"`
				Tokens  []string
				Words   []int
				Offsets [][2]int
			}
			Decoded string
		}
	}
}

func readCharsmaps(t testing.TB, path string) (f charsmapFile) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// clusterTexts draws the same texts as charsmap.py: marks, joiners, flags and jamo in any order.
func clusterTexts(alphabet string, n int, state uint64) []string {
	draw := func(k int) uint64 {
		state = state*6364136223846793005 + 1442695040888963407
		return (state >> 33) % uint64(k)
	}
	letters := []rune(alphabet)
	texts := make([]string, n)
	for i := range texts {
		var b strings.Builder
		for range draw(16) {
			b.WriteRune(letters[draw(len(letters))])
		}
		texts[i] = b.String()
	}
	return texts
}

// The variable GOTRAINER_CHARSMAPS names the file that charsmap.py writes for sentencepiece's own
// tables.
func TestCharsmapsAndScriptsAreTheReferences(t *testing.T) {
	paths := []string{"testdata/charsmap.json"}
	if more := os.Getenv("GOTRAINER_CHARSMAPS"); more != "" {
		paths = append(paths, more)
	}
	for _, path := range paths {
		f := readCharsmaps(t, path)
		random, points, clusters := randomTexts(20000, 3), codePoints(), clusterTexts(f.Alphabet, 40000, 4)
		for name, c := range f.Components {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				n, err := normalizers.Parse(c.Pipeline.Normalizer)
				if err != nil {
					t.Fatal(err)
				}
				p, err := pretokenizers.Parse(c.Pipeline.PreTokenizer)
				if err != nil {
					t.Fatal(err)
				}
				compare(t, "random", random, 1000, c.Random, splits(n, p))
				compareCodePoints(t, points, c.Points, splits(n, p))
				compare(t, "clusters", clusters, 2000, c.Clusters, splits(n, p))
			})
		}
	}
}

func TestUnigramOverACharsmapEncodesAsTheReference(t *testing.T) {
	for name, c := range readCharsmaps(t, "testdata/charsmap.json").Tokenizers {
		t.Run(name, func(t *testing.T) {
			tok, err := ParseTokenizer(c.Tokenizer)
			if err != nil {
				t.Fatal(err)
			}
			written, err := tok.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			if tok, err = ParseTokenizer(written); err != nil {
				t.Fatal(err)
			}
			for _, want := range c.Cases {
				e, err := tok.Encode(want.Text, nil)
				if err != nil {
					t.Fatal(err)
				}
				var offsets [][2]int
				for _, s := range e.Offsets {
					offsets = append(offsets, [2]int{s.Start, s.End})
				}
				w := want.Encoding
				if got, want := fmt.Sprint(e.IDs, e.Tokens, e.Words, offsets), fmt.Sprint(w.IDs, w.Tokens, w.Words,
					w.Offsets); got != want {
					t.Errorf("%q:\n got %s\nwant %s", e.Tokens, got, want)
				}
				if got := tok.Decode(e.IDs, nil); got != want.Decoded {
					t.Errorf("Decode(%v) = %q, want %q", e.IDs, got, want.Decoded)
				}
			}
		})
	}
}
