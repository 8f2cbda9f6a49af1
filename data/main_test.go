package data_test

import (
	"os"
	"testing"

	"github.com/gotrainer/gotrainer/internal/leaks"
)

// TestMain checks for leaked goroutines after the tests.
func TestMain(m *testing.M) { os.Exit(leaks.Run(m)) }
