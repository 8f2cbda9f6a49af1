package tensorio_test

import (
	"syscall"
	"testing"
	"time"
)

// cpu reports the processor time per iteration, which depends less on the machine's load than
// elapsed time.
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
