package trainer_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
)

// flipBit damages a file as a failing disk does.
func flipBit(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
}

// memoryDir returns a folder in memory if possible: these tests write hundreds of checkpoints, each
// of which is flushed to the disk.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "gotrainer-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// ignoreTimes excludes from a comparison what depends on the clock.
var ignoreTimes = cmpopts.IgnoreMapEntries(func(k string, _ float64) bool {
	return strings.HasSuffix(k, "_runtime") || strings.HasSuffix(k, "_per_second")
})
