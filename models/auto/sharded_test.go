package auto_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/bart"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/marian"
	"github.com/gotrainer/gotrainer/models/trocr"
	"github.com/gotrainer/gotrainer/models/wav2vec2"
	"github.com/gotrainer/gotrainer/models/whisper"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// engine refuses what would make several processes wait for layers that these leave out.
var _ = []engine.LayerDropper{(*bart.Stack)(nil), (*marian.Stack)(nil), (*trocr.Decoder)(nil), (*wav2vec2.Encoder)(nil),
	(*whisper.Encoder)(nil), (*whisper.Decoder)(nil)}

// A checkpoint is written while no process has the weights.
func TestAModelThatIsFullyShardedIsSaved(t *testing.T) {
	testenv.RequireTorch(t)
	dir, out := folder(t, "bert"), t.TempDir()
	var set data.Slice[classify.Sample]
	for i, x := range texts([]int{3, 9, 1, 12}, true) {
		set = append(set, classify.Sample{InputIDs: x.InputIDs, Label: int64(i % 2)})
	}
	var drawing sync.Mutex
	for rank, err := range ranktest.Together(t, 2, nil, func(ctx context.Context, g *dist.Group) error {
		drawing.Lock()
		torch.ManualSeed(1)
		m, err := auto.SequenceClassification(ctx, dir, auto.Options{FromConfig: true, DType: torch.Float64,
			ID2Label: []string{"no", "yes"}})
		drawing.Unlock()
		if err != nil {
			return err
		}
		step, err := engine.New(m.Task(), engine.Options{Sharding: shard.FullShard})
		if err != nil {
			return err
		}
		fit, err := trainer.New(step, trainer.Options{OutputDir: out, Epochs: 1, BatchSize: 1, Group: g,
			Save: trainer.Every(1, trainer.Update), LoadBestAtEnd: true, Eval: trainer.Every(1, trainer.Update),
			Progress: io.Discard})
		if err != nil {
			return err
		}
		_, err = fit.Fit(ctx, set, set)
		return err
	}) {
		require.NoError(t, err, "rank %d", rank)
	}
	content, err := os.ReadFile(filepath.Join(out, "checkpoint-2", "config.json"))
	require.NoError(t, err)
	var config struct{ DType string }
	require.NoError(t, json.Unmarshal(content, &config))
	assert.Equal(t, "float64", config.DType)
}
