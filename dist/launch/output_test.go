package launch

import (
	"bytes"
	"strings"
	"testing"

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
