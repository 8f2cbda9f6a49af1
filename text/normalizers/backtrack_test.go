package normalizers

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testdata/backtrack.py describes the source of these cases.
func TestPatternsThatBacktrackReplaceAsTheReference(t *testing.T) {
	raw, err := os.ReadFile("testdata/backtrack.json")
	require.NoError(t, err)
	var golden struct {
		In       []string
		Patterns []struct {
			Pattern string
			Texts   []string
		}
	}
	require.NoError(t, json.Unmarshal(raw, &golden))
	require.Len(t, golden.Patterns, 18)
	for _, p := range golden.Patterns {
		r, err := NewReplaceRegexp(p.Pattern, "_")
		require.NoError(t, err, p.Pattern)
		_, ok := r.pattern.(backtracking)
		assert.True(t, ok, "%s needs backtracking", p.Pattern)
		for i, text := range golden.In {
			assert.Equal(t, p.Texts[i], r.Apply(text), "%s in %q", p.Pattern, text)
		}
	}
}

func TestPatternsThatCannotBeWrittenOutAreRefused(t *testing.T) {
	for pattern, want := range map[string]string{
		`(a\g<1>?b)`: "calls its own group", `\g<2>(a)`: "a group that there is not", `(a)\2`: "undefined group",
		"(a)\\1\U000F0000": "private plane", `(a)\1++`: "possessive",
		`(a)` + calls(11): "too long",
	} {
		_, err := Regexp(pattern)
		assert.ErrorContains(t, err, want, pattern)
	}
}

// calls returns a pattern of n groups, each of which calls the one before it twice.
func calls(n int) (pattern string) {
	for i := range n {
		pattern += fmt.Sprintf(`(\g<%d>\g<%d>)`, i+1, i+1)
	}
	return pattern
}

func FuzzBacktrack(f *testing.F) {
	f.Add(`(.)\1`, "aa")
	f.Add(`\k`, "0")
	f.Add(`(?<a>x(y)?)\g<a>\k<a>[)(](?=z)`, "xyx")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 20 || len(text) > 20 {
			return // slow
		}
		p, err := backtrack(pattern)
		if err != nil {
			return
		}
		for _, s := range p.Matches(text) {
			if s.Start < 0 || s.End < s.Start || s.End > len(text) {
				t.Fatalf("%q in %q: %v", pattern, text, s)
			}
		}
	})
}
