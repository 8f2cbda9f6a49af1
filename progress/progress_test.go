package progress

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLinesAreThoseOfTqdm compares with testdata/meter.py.
func TestLinesAreThoseOfTqdm(t *testing.T) {
	text, err := os.ReadFile("testdata/meter.json")
	require.NoError(t, err)
	var cases []struct {
		N, Total, Columns                int
		Elapsed                          float64
		ASCII                            bool
		Unit, Description, Postfix, Line string
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	for _, c := range cases {
		begin := time.Unix(0, 0)
		b := &Bar{o: Options{Unit: c.Unit, Description: c.Description}, total: c.Total, n: c.N, postfix: c.Postfix,
			utf8: !c.ASCII, begin: begin, now: func() time.Time {
				return begin.Add(time.Duration(c.Elapsed * float64(time.Second)))
			}}
		assert.Equal(t, c.Line, b.text(c.Columns), "%+v", c)
	}
}

func TestPlainLinesWhereThereIsNoTerminal(t *testing.T) {
	var out bytes.Buffer
	for i := range Range(1000, Options{Out: &out}) {
		if i == 499 {
			break
		}
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 5, "four tenths and the end")
	assert.Contains(t, lines[0], "| 100/1000 [")
	assert.Contains(t, lines[4], "| 499/1000 [")
	assert.NotContains(t, out.String(), "\r")
}

func TestATerminalsLineIsRedrawn(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	b := New(4, Options{Out: &out})
	b.terminal, b.now, b.begin, b.width = true, func() time.Time { return now }, now, func() int { return 60 }
	b.Update(1)
	first := out.Len()
	require.Positive(t, first)
	b.Update(1)
	assert.Equal(t, first, out.Len(), "within a tenth of a second it is not drawn again")
	now = now.Add(time.Second)
	b.SetPostfix("loss=1")
	b.Update(1)
	assert.Contains(t, out.String()[first:], "| 3/4 [00:01<00:00,  3.00it/s, loss=1]\x1b[K")
	out.Reset()
	var other bytes.Buffer
	b.Println(&other, "a line")
	assert.Equal(t, "a line\n", other.String())
	assert.True(t, strings.HasPrefix(out.String(), "\r\x1b[K\r"), "%q", out.String())
	b.Close()
	b.Close()
	b.Update(1)
	assert.Equal(t, 1, strings.Count(out.String(), "\n"))
}

func ExampleNew() {
	bar := New(3, Options{Out: os.Stdout})
	for range 3 {
		bar.Update(1)
	}
	bar.Close()
}

func TestACountBelowZeroIsAnEmptyBar(t *testing.T) {
	var out bytes.Buffer
	b := New(10, Options{Out: &out})
	b.Update(-1)
	b.Close()
	assert.Contains(t, out.String(), "-1/10 [")
}
