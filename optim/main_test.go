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

// equal compares the results of many updates. On other machines, GaLore's decompositions amplify
// differences to more than 500 units in the last place.
func equal(t *testing.T, name string, got, want torch.Tensor) {
	t.Helper()
	places := 0.0
	if strings.Contains(t.Name(), "galore") {
		places = 4096
	}
	golden.RecordedWithin(t, name, got, want, places)
}
