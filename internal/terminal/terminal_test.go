package terminal_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/terminal"
)

func TestWhatIsNoTerminal(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer null.Close() //nolint:errcheck // nothing is written
	file, err := os.Create(t.TempDir() + "/log")
	require.NoError(t, err)
	defer file.Close() //nolint:errcheck // nothing is written
	assert.False(t, terminal.Is(null), "a device that shows nothing")
	assert.False(t, terminal.Is(file), "a file")
	assert.False(t, terminal.Is(new(bytes.Buffer)), "memory")
	assert.Equal(t, 80, terminal.Width(file))
	assert.Empty(t, terminal.ClearLine(file))
}
