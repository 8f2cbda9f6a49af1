package cgotorch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestInstallRootWhoseNameIsAPattern: a user's home folder may have any name.
func TestInstallRootWhoseNameIsAPattern(t *testing.T) {
	root := filepath.Join(t.TempDir(), "[1] home")
	lib := filepath.Join(root, "libtorch-2.11.0-cpu", "lib")
	require.NoError(t, os.MkdirAll(lib, 0o700))
	t.Setenv("GOTRAINER_HOME", root)
	t.Setenv("GOTRAINER_LIB", "")
	assert.Contains(t, SearchPath(), lib)

	other := "libcgotorch-0" + librarySuffix()
	require.NoError(t, os.WriteFile(filepath.Join(lib, other), nil, 0o600))
	err := notFound([]string{lib})
	require.True(t, errors.Is(err, ErrNotInstalled))
	assert.ErrorContains(t, err, other+" there was built from other sources")
}
