package testenv

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestStdoutReturnsAllThatIsPrinted(t *testing.T) {
	before, failed := os.Stdout, errors.New("failed")
	long := strings.Repeat("more than a pipe holds\n", 10000)
	got, err := Stdout(t, func() error {
		fmt.Print(long)
		return failed
	})
	if got != long || !errors.Is(err, failed) {
		t.Errorf("%d bytes and error %v, want %d and %v", len(got), err, len(long), failed)
	}
	if os.Stdout != before {
		t.Error("standard output was not restored")
	}
}
