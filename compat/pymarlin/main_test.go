package pymarlin_test

import (
	"os"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	if dir := os.Getenv(killedRun); dir != "" {
		os.Exit(runToBeKilled(dir))
	}
	os.Exit(testenv.Run(m))
}
