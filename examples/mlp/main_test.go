package main

import (
	"fmt"
	"io"
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
	stdout := os.Stdout
	defer func() { os.Stdout = stdout }()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout = w
	main()
	w.Close()
	printed, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	var accuracy float64
	if _, err := fmt.Sscanf(string(printed), "accuracy on unseen points: %g", &accuracy); err != nil || accuracy < 0.95 {
		t.Errorf("printed %q, want an accuracy of at least 0.95", printed)
	}
}
