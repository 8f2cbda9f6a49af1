// Package testenv tells tests what this machine supports, and makes it compute the same bits as the
// machine that recorded the golden values.
//
//	func TestMain(m *testing.M) {
//		testenv.PinBits()
//		os.Exit(testenv.Run(m))
//	}
//
//	func TestLinear(t *testing.T) {
//		testenv.RequireTorch(t)
//		...
//	}
package testenv

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/gotrainer/gotrainer/internal/leaks"
	"github.com/gotrainer/gotrainer/torch"
)

// requireTorch is the environment variable that makes tests fail instead of being skipped, so that
// CI runs everything that it should.
const requireTorch = "GOTRAINER_REQUIRE_TORCH"

// RequireTorch skips the test with the reason if libtorch cannot be loaded. If
// GOTRAINER_REQUIRE_TORCH=1 is set, it fails the test instead.
func RequireTorch(t testing.TB) {
	t.Helper()
	if err := torch.Load(); err != nil {
		missing(t, err.Error())
	}
}

// RequireCUDA skips the test if libtorch finds no GPU, even if GOTRAINER_REQUIRE_TORCH is set.
func RequireCUDA(t testing.TB) {
	t.Helper()
	RequireTorch(t)
	if torch.CUDADevices() == 0 {
		t.Skip("libtorch finds no GPU")
	}
}

// SkipEmulated skips the test with a reason under make test-arm64, if it measures something that
// depends on qemu.
func SkipEmulated(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("QEMU_LD_PREFIX") != "" {
		t.Skip("an emulated CPU: " + why)
	}
}

func missing(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv(requireTorch) == "1" {
		t.Fatalf("%s (%s=1 is set, so this test must not be skipped)", reason, requireTorch)
	}
	t.Skip(reason)
}

// Run runs the tests of a package, for TestMain. If libtorch cannot be loaded, it leaves out the
// package's Examples, which cannot skip themselves; tests do that with RequireTorch.
//
//	func TestMain(m *testing.M) {
//		testenv.PinBits()
//		os.Exit(testenv.Run(m))
//	}
func Run(m *testing.M) int {
	flag.Parse()
	run := flag.Lookup("test.run")
	if run.Value.String() == "" && os.Getenv(requireTorch) != "1" {
		if err := torch.Load(); err != nil {
			fmt.Fprintln(os.Stderr, "Examples are left out:", err)
			if err := run.Value.Set("^(Test|Fuzz)"); err != nil {
				panic(err)
			}
		}
	}
	return leaks.Run(m)
}
