package hub

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// TestPatternsAreTheHubs compares the hand-written matchers with the regular expressions that they
// implement.
func TestPatternsAreTheHubs(t *testing.T) {
	for expression, p := range map[string]pattern{
		`^([A-Za-z0-9_]|[A-Za-z0-9_][A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])$`: repoPattern,
		`^[0-9a-f]{40}$`:                      commitPattern,
		`^[0-9a-f]{64}$`:                      sha256Pattern,
		`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}$`: etagPattern,
	} {
		whole := regexp.MustCompile(expression)
		rapid.Check(t, func(r *rapid.T) {
			s := rapid.OneOf(rapid.StringMatching(expression), rapid.StringMatching(`[0-9a-f]{38,66}`),
				rapid.StringMatching(`[a-z_.\n-]{0,3}[a-zA-Z0-9_.-]{90,202}[\n.]?`), rapid.String()).Draw(r, "s")
			assert.Equal(r, whole.MatchString(s), p.MatchString(s), "%q", s)
		})
	}
}
