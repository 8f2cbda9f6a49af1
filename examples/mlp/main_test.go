package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

func TestReaches95Percent(t *testing.T) {
	testenv.RequireTorch(t)
	printed, _ := testenv.Stdout(t, func() error { main(); return nil })
	var accuracy float64
	if _, err := fmt.Sscanf(printed, "accuracy on unseen points: %g", &accuracy); err != nil || accuracy < 0.95 {
		t.Errorf("printed %q, want an accuracy of at least 0.95", printed)
	}
}
