package amp_test

import (
	"os"
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// equal compares bits where libtorch takes the code paths that wrote the golden files, and closely
// elsewhere.
func equal(t *testing.T, name string, got, want torch.Tensor) {
	t.Helper()
	golden.Recorded(t, name, got, want)
}
