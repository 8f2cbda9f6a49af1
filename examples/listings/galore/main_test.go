package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/examples/listings/internal/fakehub"
	"github.com/gotrainer/gotrainer/hub/hubtest"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/llama"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/text"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

// TestListings runs the guide's three listings with a small Gemma.
func TestListings(t *testing.T) {
	testenv.RequireTorch(t)
	server := fakehub.Start(t)
	tok, err := text.TrainByteLevel(slices.Values([]string{"a fine film"}), text.TrainOptions{VocabSize: 270})
	require.NoError(t, err)
	model, err := auto.NewCausalLM(llama.Config{Type: "gemma", VocabSize: 270, HiddenSize: 192, IntermediateSize: 256,
		NumLayers: 1, NumHeads: 4, HeadDim: 48, MaxPositions: 1024}, tok)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, model.Save(dir))
	fakehub.Add(t, server, hubtest.Model, "google/gemma-2b", dir)
	type row struct {
		Text  string `parquet:"text"`
		Label int64  `parquet:"label"`
	}
	rows := make([]row, 20)
	for i := range rows {
		rows[i] = row{Text: strings.Repeat("a fine film ", 1+i*10)}
	}
	var file bytes.Buffer
	require.NoError(t, parquet.Write(&file, rows))
	server.CreateRepo(hubtest.Dataset, "stanfordnlp/imdb", hubtest.Public)
	server.Commit(hubtest.Dataset, "stanfordnlp/imdb", "main",
		map[string][]byte{"plain_text/train-00000-of-00001.parquet": file.Bytes()})

	trainingArgs["max_steps"] = 3
	for name, changed := range map[string]map[string]any{
		"the first":      {},
		"with arguments": {"optim_args": "rank=64, update_proj_gap=100, scale=0.10"},
		"layer by layer": {"optim": "galore_adamw_layerwise"},
	} {
		trainingArgs["optim"] = "galore_adamw"
		delete(trainingArgs, "optim_args")
		for key, value := range changed {
			trainingArgs[key] = value
		}
		trainingArgs["output_dir"] = t.TempDir()
		require.NoError(t, train(t.Context()), name)
		f, err := safetensors.Open(trainingArgs["output_dir"].(string) + "/checkpoint-3/optimizer.safetensors")
		require.NoError(t, err)
		projected := false
		for _, tensor := range f.Tensors() {
			projected = projected || strings.Contains(tensor.Name, "mlp.up_proj") &&
				!slices.Equal(tensor.Shape, []int64{256, 192})
		}
		assert.True(t, projected, "%s: the moments of projected layers are smaller", name)
		require.NoError(t, f.Close())
	}
	for _, r := range server.Requests() {
		assert.NotContains(t, r.Path, "model.safetensors", "no weights are fetched that would be drawn")
	}
}
