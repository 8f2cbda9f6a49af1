package optim_test

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

// equal compares the results of many updates. GaLore's decompositions enlarge differences most, to
// 243 last places seen.
func equal(t *testing.T, name string, got, want torch.Tensor) {
	t.Helper()
	golden.RecordedWithin(t, name, got, want, 512)
}
