package launch

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLinesAreWrittenWhenTheyEnd(t *testing.T) {
	long := strings.Repeat("x", longestLine)
	for name, c := range map[string]struct {
		writes []string
		now    string // before the process ends
		atEnd  string
	}{
		"lines":                    {[]string{"a\nb", "c\n\n"}, "[3] a\n[3] bc\n[3] \n", ""},
		"a line under way":         {[]string{"a\nb"}, "[3] a\n", "[3] b\n"},
		"lines of Windows":         {[]string{"a\r\nb\r", "\nc"}, "[3] a\r\n[3] b\r\n", "[3] c\n"},
		"a progress bar":           {[]string{"\r 0%", "\r50%", "\r100%", "\n"}, "[3]  0%\r[3] 50%\r[3] 100%\n", ""},
		"one that ends its lines":  {[]string{" 0%\r", "50%\r"}, "[3]  0%\r", "[3] 50%\r\n"},
		"a line that is too long":  {[]string{long[1:], "xyz", "\n"}, "[3] " + long + "\n[3] yz\n", ""},
		"a long line in one write": {[]string{long + long + "\n"}, "[3] " + long + long + "\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			p := (&lines{w: &out}).prefixed(3)
			for _, text := range c.writes {
				n, err := p.Write([]byte(text))
				require.NoError(t, err)
				require.Equal(t, len(text), n)
			}
			assert.Equal(t, c.now, out.String())
			out.Reset()
			p.flush()
			assert.Equal(t, c.atEnd, out.String())
		})
	}
}

// slow is a writer that blocks for a while.
type slow struct {
	bytes.Buffer
	once sync.Once
}

func (s *slow) Write(b []byte) (int, error) {
	s.once.Do(func() { time.Sleep(10 * lingerTimeout) })
	return s.Buffer.Write(b)
}

// All output of a process is forwarded, however long that takes, but a child that it left running
// does not delay the launcher.
func TestTheLastOutputIsNotDropped(t *testing.T) {
	old := lingerTimeout
	t.Cleanup(func() { lingerTimeout = old })
	lingerTimeout = 20 * time.Millisecond
	var out slow
	long := strings.Repeat("x", 50_000)
	require.NoError(t, Run(t.Context(), Options{Processes: 1, Stdout: &out, Stderr: io.Discard,
		Command: []string{"sh", "-c", "sleep 60 2>&1 & echo first; sleep 0.1; printf %s\\\\n " + long + "; echo last"}}))
	assert.Equal(t, "[0] first\n[0] "+long+"\n[0] last\n", out.String())
}
