// Package leaks fails a test binary that leaves goroutines behind.
package leaks

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end on a busy machine.
const patience = 15 * time.Second

// Run runs the tests and returns their exit code, or 1 if goroutines remain.
func Run(m *testing.M) int {
	return Check(m.Run())
}

// Check returns the exit code of tests, or 1 if they have passed and goroutines remain.
func Check(code int) int {
	if code != 0 {
		return code
	}
	// regexp2's clock keeps running for a while after using an expression with a time limit.
	clock := goleak.IgnoreAnyFunction("github.com/dlclark/regexp2.runClock")
	var err error
	for begin := time.Now(); time.Since(begin) < patience; {
		if err = goleak.Find(clock); err == nil {
			return 0
		}
	}
	fmt.Fprintln(os.Stderr, "goroutines are left after the tests:", err)
	return 1
}
