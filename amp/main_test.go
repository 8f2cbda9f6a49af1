package amp_test

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

// equalBF16 compares what was computed under autocast.
func equalBF16(t *testing.T, name string, got, want torch.Tensor) {
	t.Helper()
	if strings.HasSuffix(name, ".cb1") && !testenv.SameBits() {
		return // a bias before a batch norm has no gradient but rounding noise, which Adam enlarges
	}
	golden.RecordedIn(t, name, got, want, torch.BFloat16)
}
