package torch_test

import (
	"errors"
	"flag"
	"os"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" { // a child process tests the loader, in the given environment
		testenv.PinBits()
		if torch.Load() != nil { // examples cannot skip themselves
			if err := flag.Set("test.skip", "^Example"); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}

// mustFail runs f and returns the *torch.Error that it must panic with.
func mustFail(t *testing.T, f func()) *torch.Error {
	t.Helper()
	err := torch.Try(f)
	var e *torch.Error
	if !errors.As(err, &e) {
		t.Fatalf("the call succeeded, want a *torch.Error")
	}
	return e
}
