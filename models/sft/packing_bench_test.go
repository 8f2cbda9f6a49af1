package sft_test

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/llama"
	"github.com/gotrainer/gotrainer/models/sft"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// BenchmarkPacking trains a small Llama on texts of 8 to 512 tokens, half of which are shorter than
// 64, in batches of about 2048 tokens, and reports the tokens a second that are no padding.
func BenchmarkPacking(b *testing.B) {
	testenv.RequireTorch(b)
	torch.SetThreads(1)
	random := rand.New(rand.NewPCG(1, 2))
	texts, lengths, tokens := make([]sft.Sample, 512), make([]int, 512), 0
	for i := range texts {
		n := min(512, max(8, int(64*math.Exp(random.NormFloat64()))))
		ids := make([]int64, n)
		for k := range ids {
			ids[k] = random.Int64N(2048)
		}
		texts[i].Text = inputs.Text{InputIDs: ids}
		lengths[i] = n
		tokens += n
	}
	packed, err := causallm.Pack(texts, 512, causallm.BFD)
	require.NoError(b, err)
	batch := 2048 * len(texts) / tokens
	for _, c := range []struct {
		name        string
		samples     []sft.Sample
		batch       int
		paddingFree bool
		order       data.Order
	}{
		{"padded", texts, batch, false, nil},
		{"padded, by length", texts, batch, false, data.GroupedByLength{Lengths: lengths, BatchSize: batch}},
		{"without padding", texts, batch, true, nil},
		{"packed", packed, 4, true, nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			torch.ManualSeed(1)
			pad := int64(0)
			m, err := auto.NewCausalLM(llama.Config{VocabSize: 2048, HiddenSize: 128, NumLayers: 4, NumHeads: 4,
				NumKeyValueHeads: 2, IntermediateSize: 344, MaxPositions: 512, TieWordEmbeddings: true,
				PadTokenID: &pad, EOSTokenIDs: []int64{1}}, nil)
			require.NoError(b, err)
			require.NoError(b, m.SetPaddingFree(c.paddingFree))
			task, err := m.SFTTask(sft.TaskOptions{})
			require.NoError(b, err)
			step, err := engine.New(task, engine.Options{})
			require.NoError(b, err)
			tr, err := trainer.New(step, trainer.Options{BatchSize: c.batch, Epochs: 1, Order: c.order,
				Progress: io.Discard})
			require.NoError(b, err)
			for b.Loop() {
				_, err := tr.Fit(context.Background(), data.Slice[sft.Sample](c.samples), nil)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(tokens)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}
