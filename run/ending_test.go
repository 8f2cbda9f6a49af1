package run

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// watched returns how a process ends that receives these signals and does not exit by itself.
func watched(grace time.Duration, signals ...os.Signal) (code int, stderr string) {
	var b bytes.Buffer
	e := &ending{name: "program", stderr: &b, exit: func(c int) { code = c }}
	c := make(chan os.Signal, len(signals))
	for _, s := range signals {
		c <- s
	}
	e.watch(c, grace, func(error) {})
	return code, b.String()
}

// The same signal shortly after the first belongs to the same request; a later one does not.
func TestWhichSignalIsTheSecond(t *testing.T) {
	_, stderr := watched(time.Millisecond, syscall.SIGTERM, syscall.SIGTERM)
	assert.Contains(t, stderr, "received SIGTERM: not left within 1ms")
	code, stderr := watched(time.Hour, syscall.SIGTERM, syscall.SIGTERM, syscall.SIGUSR1)
	assert.Contains(t, stderr, "received SIGTERM, then received SIGUSR1: left at once")
	assert.Equal(t, 138, code)
	_, stderr = watched(time.Millisecond, syscall.SIGINT, syscall.SIGINT)
	assert.Contains(t, stderr, "received SIGINT: not left within 1ms")
	old, oldKey := sameRequest, sameKey
	t.Cleanup(func() { sameRequest, sameKey = old, oldKey })
	sameKey = 0
	_, stderr = watched(time.Hour, syscall.SIGINT, syscall.SIGINT)
	assert.Contains(t, stderr, "received SIGINT, then received SIGINT: left at once")
	sameRequest = 0
	_, stderr = watched(time.Hour, syscall.SIGTERM, syscall.SIGTERM)
	assert.Contains(t, stderr, "received SIGTERM, then received SIGTERM: left at once")
}

func TestARecordIsReadable(t *testing.T) {
	line := string(recordOf(Usage(errors.New(`want "<folder>" & more`)), nil).line())
	assert.Contains(t, line, `"error":"want \"<folder>\" & more"}`)
	assert.NotContains(t, line, "\n")
}

// A signal may arrive while a finished process is printing its record.
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
