package bert_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/peak"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/safetensors"
)

// A config.json for a much larger model than its weights is detected before memory is allocated for
// it.
func TestMemoryOfAConfigThatAsksForMuch(t *testing.T) {
	testenv.RequireTorch(t)
	testenv.SkipEmulated(t, "qemu keeps tables of the pages that are asked for")
	_, err := bert.New(tiny()) // loads libtorch before anything is measured
	require.NoError(t, err)
	for _, layers := range []int{2_000_000_000, 512} {
		dir := t.TempDir()
		config := fmt.Sprintf(`{"model_type": "bert", "num_hidden_layers": %d}`, layers)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600))
		require.NoError(t, safetensors.WriteFile(filepath.Join(dir, "model.safetensors"), []safetensors.Entry{
			{Name: "bert.pooler.dense.bias", DType: safetensors.F32, Shape: []int64{768},
				Data: safetensors.Bytes(make([]byte, 4*768))}}, nil))
		more := peak.Memory(t, func() { _, _, err = bert.LoadClassifier(dir, bert.Head{}) })
		t.Logf("%d layers: %d MB: %.200s", layers, more>>20, err)
		require.Error(t, err)
		assert.Less(t, more, int64(64<<20))
	}
}
