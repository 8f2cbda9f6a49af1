package trainer_test

import (
	"os"
	"testing"

	"github.com/gotrainer/gotrainer/internal/leaks"
)

// TestMain checks after the tests that no goroutines are left.
func TestMain(m *testing.M) { os.Exit(leaks.Run(m)) }
