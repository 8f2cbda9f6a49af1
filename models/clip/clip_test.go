package clip_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/text"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

func TestTokenizerGivesTheSameIDs(t *testing.T) { modeltest.SameTokens(t) }

// TestImageClassifiersHaveTransformersBits compares initial weights, passes in training and
// evaluation, and 20 updates of Trainer.
func TestImageClassifiersHaveTransformersBits(t *testing.T) { modeltest.RunEncoders(t, "images") }

const end = 60 // the token that ends the texts of the golden file

var models = modeltest.Dual{Name: "clip", Class: "CLIPModel", Models: 3, Prepare: prepare,
	Whole: func(ids []int64) []int64 { return append(ids, end) },
	Full: func(ids []int64) []int64 {
		ids = append(append(ids, ids...), ids...)[:4]
		ids[3] = end
		return ids
	},
}

func TestSameSeedGivesTransformersWeights(t *testing.T) { models.SameFresh(t) }

func TestForwardAndBackwardHaveTransformersBits(t *testing.T) { models.SamePasses(t) }

func TestRunsHaveTransformersBits(t *testing.T) { models.SameRuns(t) }

func prepare(t *testing.T, dir string) {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	var d map[string]any
	require.NoError(t, json.Unmarshal(config, &d))
	if own := d["text_config"].(map[string]any); own["eos_token_id"] != 2. {
		own["eos_token_id"] = 639 // the end token of the tokenizer, not that of the texts of the run
	}
	config, err = json.Marshal(d)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "preprocessor_config.json"), []byte(`{"size": {"shortest_edge": 12},
		"crop_size": {"height": 12, "width": 12}}`), 0o600))
	tokenizer, err := text.LoadTokenizer("testdata/tokenizer")
	require.NoError(t, err)
	require.NoError(t, tokenizer.Save(dir))
}
