package run

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A signal may come while a finished process prints its record.
func TestTheRecordIsTheLastLine(t *testing.T) {
	var stderr bytes.Buffer
	e := &ending{name: "program", stderr: &stderr, exit: func(int) {}}
	e.end(recordOf(nil, nil))
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	cancelled := false
	e.watch(signals, time.Millisecond, func(error) { cancelled = true })
	assert.True(t, cancelled)
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	require.Len(t, lines, 1)
	assert.Contains(t, lines[0], `"kind":"ok"`)
}
