package optim_test

import (
	"os"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// equal compares the results of many updates. GaLore's decompositions enlarge differences of other
// machines, to more than 500 last places.
func equal(t *testing.T, name string, got, want torch.Tensor) {
	t.Helper()
	places := 0.0
	if strings.Contains(t.Name(), "galore") {
		places = 4096
	}
	golden.RecordedWithin(t, name, got, want, places)
}
