package accelerate_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
)

// TestMain is also the main function of the processes that tests start.
func TestMain(m *testing.M) {
	testenv.PinBits()
	if role := os.Getenv("ACCELERATE_TEST_ROLE"); role != "" {
		if err := oneOfTwo(role, os.Getenv("ACCELERATE_TEST_DIR")); err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(testenv.Run(m))
}
