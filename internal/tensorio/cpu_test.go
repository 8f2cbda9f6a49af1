package tensorio_test

import (
	"syscall"
	"testing"
	"time"
)

// cpu reports the processor time of a loop, which a loaded machine changes less than the time that
// passes.
func cpu(b *testing.B) func() {
	now := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	begin := now()
	return func() { b.ReportMetric(float64((now()-begin).Milliseconds())/float64(b.N), "cpu-ms/op") }
}
