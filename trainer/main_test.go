package trainer_test

import (
	"os"
	"testing"

	"github.com/gotrainer/gotrainer/internal/leaks"
)

// TestMain looks after the tests whether goroutines are left.
func TestMain(m *testing.M) { os.Exit(leaks.Run(m)) }
