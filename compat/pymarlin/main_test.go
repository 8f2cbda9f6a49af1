package pymarlin_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	if dir := os.Getenv(killedRun); dir != "" {
		os.Exit(runToBeKilled(dir))
	}
	if run := os.Getenv(rankRun); run != "" {
		if err := oneOfSeveral(run); err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(testenv.Run(m))
}
