package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

func TestReaches95Percent(t *testing.T) {
	testenv.RequireTorch(t)
	printed, _ := testenv.Stdout(t, func() error { return train(t.Context(), "cpu") })
	var accuracy float64
	if _, err := fmt.Sscanf(printed, "accuracy on unseen points: %g", &accuracy); err != nil || accuracy < 0.95 {
		t.Errorf("printed %q, want an accuracy of at least 0.95", printed)
	}
}

// TestHelp runs the program in a process, because -h ends it.
func TestHelp(t *testing.T) {
	if os.Getenv("MLP_HELP") != "" {
		os.Args = []string{"mlp", "-h"}
		main()
		t.Fatal("the training has run")
	}
	c := exec.Command(os.Args[0], "-test.run=^TestHelp$") //nolint:gosec // the test itself
	c.Env = append(os.Environ(), "MLP_HELP=1")
	out, err := c.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "Usage: mlp [-device auto|cpu|cuda|cuda:N]\n") ||
		!strings.Contains(string(out), "where to train: auto") {
		t.Errorf("-h: %v, printed %q; want the usage and success", err, out)
	}
}
