package optim_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/optim"
)

// The table in docs/optimizers.md must list every name of transformers once, and what ByName makes
// of it.
func TestTheTableOfNamesIsTrue(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "optimizers.md"))
	require.NoError(t, err)
	code := regexp.MustCompile("`([^`]+)`")
	var listed []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 7 || !strings.Contains(cells[1], "`") || strings.Contains(cells[1], "`optim`") {
			continue
		}
		for _, name := range code.FindAllStringSubmatch(cells[1], -1) {
			listed = append(listed, name[1])
			b, err := optim.ByName(name[1], optim.Arguments{})
			if strings.TrimSpace(cells[2]) == "refused" {
				assert.ErrorIs(t, err, optim.ErrOption, name[1])
				continue
			}
			require.NoError(t, err, name[1])
			assert.Contains(t, cells[2], "`"+reflect.TypeOf(b).Name()+"`", name[1])
		}
	}
	slices.Sort(listed)
	assert.Equal(t, readPackagesByName(t).Names, listed)
}
