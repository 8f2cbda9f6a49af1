package sft_test

import (
	"encoding/json"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/sft"
	"github.com/gotrainer/gotrainer/torch"
)

// recordedPacking is what testdata/packing/packing.py wrote.
type recordedPacking struct {
	Packed []struct {
		Lengths  []int
		Size     int
		Strategy causallm.Packing
		Samples  []struct {
			InputIDs   []int64 `json:"input_ids"`
			SeqLengths []int64 `json:"seq_lengths"`
		}
	}
	Models             map[string]map[string]any
	Initial            map[string]map[string]string
	Whole, Completions [][2][]int64 // tokens and labels
	Runs               []struct {
		Name, Family string
		Whole        bool
		Settings     struct {
			Packing     bool
			Strategy    causallm.Packing `json:"packing_strategy"`
			MaxLength   int              `json:"max_length"`
			PaddingFree bool             `json:"padding_free"`

			modeltest.TRLSettings
		}
		Samples int
		Logs    []map[string]string
	}
}

func loadPacking(t *testing.T) (r recordedPacking) {
	t.Helper()
	content, err := os.ReadFile("testdata/packing/packing.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &r))
	return r
}

func TestPackedTextsAreThoseOfTRL(t *testing.T) {
	for _, c := range loadPacking(t).Packed {
		var texts []sft.Sample
		token := int64(0)
		for _, n := range c.Lengths {
			var s sft.Sample
			for range n {
				s.InputIDs = append(s.InputIDs, token)
				token++
			}
			texts = append(texts, s)
		}
		packed, err := causallm.Pack(texts, c.Size, c.Strategy)
		require.NoError(t, err)
		require.Len(t, packed, len(c.Samples), "%s of %d", c.Strategy, c.Size)
		for i, want := range c.Samples {
			assert.Equal(t, want.InputIDs, packed[i].InputIDs, "%s of %d: sample %d", c.Strategy, c.Size, i)
			assert.Equal(t, want.InputIDs, packed[i].Labels, "%s of %d: sample %d", c.Strategy, c.Size, i)
			assert.Equal(t, want.SeqLengths, packed[i].Lengths, "%s of %d: sample %d", c.Strategy, c.Size, i)
		}
	}
}

// The order of sums differs: TRL masks all texts of a batch against each other.
func TestPackedRunsAreThoseOfSFTTrainer(t *testing.T) {
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	r := loadPacking(t)
	for _, run := range r.Runs {
		t.Run(run.Name, func(t *testing.T) {
			m := modeltest.TRLModel(t, r.Models[run.Family], 42, r.Initial[run.Family],
				func(dir string) (*auto.CausalLanguageModel, error) {
					return auto.CausalLM(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard})
				})
			s := run.Settings
			if s.Strategy != causallm.Wrapped {
				require.NoError(t, m.SetPaddingFree(true))
			}
			rows := r.Completions
			if run.Whole {
				rows = r.Whole
			}
			var samples []sft.Sample
			for _, row := range rows {
				samples = append(samples, sft.Sample{Text: inputs.Text{InputIDs: row[0]}, Labels: row[1]})
			}
			eval, size := samples[:8], 24
			if s.MaxLength > 0 {
				size = s.MaxLength
			}
			if s.Packing {
				how := causallm.BFD
				if s.Strategy != "" {
					how = s.Strategy
				}
				var err error
				eval, err = causallm.Pack(eval, size, how)
				require.NoError(t, err)
				samples, err = causallm.Pack(samples, size, how)
				require.NoError(t, err)
			}
			require.Len(t, samples, run.Samples)
			task, err := m.SFTTask(sft.TaskOptions{MaxLength: -1, CountFirstToken: run.Family == "gpt2"})
			require.NoError(t, err)
			logs, metrics := modeltest.TRLRun(t, task, s.TRLSettings, samples, eval)
			require.Len(t, logs, len(run.Logs)-1)
			share := 1e-4
			if s.BF16 {
				share = 5e-2
			}
			for i, row := range logs {
				modeltest.CloseNumbers(t, run.Logs[i], row, share)
			}
			evaluated := run.Logs[len(logs)]
			if len(eval) > 8 { // TRL's are the means over batches
				delete(evaluated, "eval_entropy")
				delete(evaluated, "eval_mean_token_accuracy")
			}
			modeltest.CloseNumbers(t, evaluated, metrics, share)
		})
	}
}
