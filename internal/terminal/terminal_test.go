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

func TestTheFirstVariableThatIsSetDecidesOnUTF8(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want bool
	}{
		{map[string]string{"LANG": "de_DE.UTF-8"}, true},
		{map[string]string{"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, false},
		{map[string]string{"LC_CTYPE": "C.utf8"}, true}, {nil, false},
	} {
		assert.Equal(t, c.want, terminal.IsUTF8(func(name string) string { return c.env[name] }), "%v", c.env)
	}
}
