package layers

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Checks that docs/install.md lists all environment variables that programs and the installation
// read.
func TestEveryVariableIsOnThePage(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "install.md"))
	require.NoError(t, err)
	variable := regexp.MustCompile(`\bGOTRAINER_[A-Z0-9_]+\b`)
	read := map[string]string{} // by name: a file that mentions it
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "internal"):
			return fs.SkipDir
		case d.IsDir() || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		switch filepath.Ext(path) {
		case ".go", ".sh", ".c", ".cc":
			text, err := os.ReadFile(path)
			for _, name := range variable.FindAllString(string(text), -1) {
				read[name] = path
			}
			return err
		}
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, read)
	for name, path := range read {
		assert.Contains(t, string(page), "`"+name+"`", "%s has it; the table of docs/install.md does not", path)
	}
}
