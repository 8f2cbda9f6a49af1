package layers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Checks that the README and the pages in docs are readable: no table cell has more than 160
// characters, and no code is cut off inside braces.
func TestPagesAreReadable(t *testing.T) {
	root := filepath.Join("..", "..")
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, page := range append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		number, code, open := 0, false, 0
		for line := range strings.Lines(string(text)) {
			number++
			switch {
			case strings.HasPrefix(line, "```"):
				assert.Zero(t, open, "%s:%d: braces that are open where the code ends", page, number)
				code, open = !code, 0
			case code:
				open += strings.Count(line, "{") - strings.Count(line, "}")
			case strings.HasPrefix(line, "|"):
				for cell := range strings.SplitSeq(line, "|") {
					n := utf8.RuneCountInString(strings.TrimSpace(cell))
					assert.LessOrEqual(t, n, 160, "%s:%d: characters of the cell %q", page, number, cell)
				}
			}
		}
		assert.False(t, code, "%s: code without an end", page)
	}
}
