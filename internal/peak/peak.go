// Package peak measures the peak memory of a function in tests.
package peak

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// Memory calls f and returns by how many bytes the resident memory of the process grew at its peak,
// including garbage on Go's heap, and C's memory. Nothing else may run meanwhile. It skips the test
// if the system does not report this, and under the race detector, whose own memory would be
// counted.
func Memory(t testing.TB, f func()) int64 {
	t.Helper()
	if raceDetector {
		t.Skip("the race detector's memory would be measured")
	}
	runtime.GC()
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // resets VmHWM
		t.Skip("this system does not tell the peak of a process's memory:", err)
	}
	before := status(t, "VmRSS")
	f()
	return status(t, "VmHWM") - before
}

// status reads a number of bytes from /proc/self/status.
func status(t testing.TB, name string) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			var kb int64
			if _, err := fmt.Sscan(rest, &kb); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			return kb << 10
		}
	}
	t.Fatalf("/proc/self/status has no %s", name)
	return 0
}
