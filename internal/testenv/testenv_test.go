package testenv

import (
	"os"
	"runtime"
	"testing"
)

func TestMain(m *testing.M) {
	PinBits()
	os.Exit(Run(m))
}

// recorder records how a test ended.
type recorder struct {
	testing.TB
	end string
}

func (r *recorder) Helper()               {}
func (r *recorder) Skip(...any)           { r.end += "skip" }
func (r *recorder) Fatalf(string, ...any) { r.end += "fail"; runtime.Goexit() }

func TestWhatIsMissingSkipsUnlessItWasPromised(t *testing.T) {
	for value, want := range map[string]string{"": "skip", "0": "skip", "1": "fail"} {
		t.Setenv(requireTorch, value)
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() { // Fatalf ends its goroutine
			defer close(done)
			missing(r, "no libtorch")
		}()
		if <-done; r.end != want {
			t.Errorf("with %s=%q a missing libtorch gives %q, want %q", requireTorch, value, r.end, want)
		}
	}
}
