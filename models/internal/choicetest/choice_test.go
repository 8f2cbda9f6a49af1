package choicetest

import (
	"os"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// TestModelsHaveTransformersBits compares initial weights, passes in training and evaluation, what
// from_pretrained draws, and 20 updates of Trainer, for every kind of encoder.
func TestModelsHaveTransformersBits(t *testing.T) { modeltest.RunEncoders(t, "choice") }
