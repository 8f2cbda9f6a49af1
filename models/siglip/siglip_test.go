package siglip_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// TestImageClassifiersHaveTransformersBits compares initial weights, passes in training and
// evaluation, and 20 updates of Trainer.
func TestImageClassifiersHaveTransformersBits(t *testing.T) { modeltest.RunEncoders(t, "images") }

// Of the golden file: the side of the images, the largest number of tokens, and padding.
const side, length, padding = 12, 24, 1

var models = modeltest.Dual{Name: "siglip", Class: "SiglipModel", Models: 3, Prepare: prepare,
	Whole: func(ids []int64) []int64 { return ids },
	Full: func(ids []int64) []int64 {
		for len(ids) < length {
			ids = append(ids, padding)
		}
		return ids
	},
}

func TestSameSeedGivesTransformersWeights(t *testing.T) { models.SameFresh(t) }

func TestForwardAndBackwardHaveTransformersBits(t *testing.T) { models.SamePasses(t) }

func TestRunsHaveTransformersBits(t *testing.T) { models.SameRuns(t) }

func prepare(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"spiece.model", "tokenizer_config.json"} {
		content, err := os.ReadFile(filepath.Join("testdata/tokenizer", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "preprocessor_config.json"),
		[]byte(`{"image_processor_type": "SiglipImageProcessor", "size": {"height": 12, "width": 12}}`), 0o600))
}
