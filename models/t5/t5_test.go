package t5_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/t5"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// recorded is the output of testdata/t5.py for one model.
type recorded struct {
	Name           string
	Config         map[string]any
	Parameters     []string
	Initial, Final map[string]string
	Generator      string
	Cases          []modeltest.CausalCase
	Losses         []string
	GradNorms      []string    `json:"grad_norms"`
	Texts          [][][]int64 // padded after their end
}

func load(t *testing.T) ([]recorded, *golden.File) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	text, err := os.ReadFile("testdata/t5.json")
	require.NoError(t, err)
	var f struct{ Models []recorded }
	require.NoError(t, json.Unmarshal(text, &f))
	require.Equal(t, 4, len(f.Models), "models")
	return f.Models, golden.Load(t, "testdata/t5.safetensors")
}

// fresh makes the model with the seed 42.
func (r recorded) fresh(t *testing.T, a transformer.Attention) *auto.Seq2SeqLanguageModel {
	t.Helper()
	dir := modeltest.ConfigFolder(t, r.Config)
	torch.ManualSeed(42)
	m, err := auto.Seq2SeqLM(t.Context(), dir, auto.Options{FromConfig: true, Attention: a, Warnings: io.Discard})
	require.NoError(t, err)
	return m
}

func TestSameSeedGivesTransformersWeights(t *testing.T) {
	models, _ := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			m := r.fresh(t, "")
			modeltest.SameFresh(t, m, r.Generator, r.Parameters, r.Initial)
		})
	}
}

func TestForwardAndBackwardHaveTransformersBits(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		for _, c := range r.Cases {
			t.Run(c.Name, func(t *testing.T) {
				goldencount.Start(t, "models", c.Name)
				torch.Scope(func() { c.ComparePair(t, r.fresh(t, c.Attention), file) })
			})
		}
	}
}

// TestCheckpointingKeepsTheNumbers: as in transformers, gradients to which several blocks
// contribute are summed in another order, and without dropout, attention with a trained bias uses
// another kernel.
func TestCheckpointingKeepsTheNumbers(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		passed := func(checkpointing bool) (logits torch.Tensor, generator string, grads []torch.Named) {
			m := r.fresh(t, "")
			m.SetGradientCheckpointing(checkpointing)
			b, err := m.Task().Collate(modeltest.PairRows(file)[:4])
			require.NoError(t, err)
			torch.ManualSeed(7)
			logits = m.Task().Predict(engine.ForwardPass{}, b).Logits[0]
			logits.Square().Mean(torch.DefaultDType).Backward()
			return logits, modeltest.Generator(), nn.Params(m)
		}
		want, generator, kept := passed(false)
		got, again, computed := passed(true)
		assert.True(t, got.AllClose(want, 1e-5, 1e-5, false), r.Name)
		assert.Equal(t, generator, again)
		for i, p := range computed {
			assert.True(t, p.Tensor.Grad().AllClose(kept[i].Tensor.Grad(), 1e-4, 1e-6, false), p.Name)
		}
	}
}

// TestRunsHaveTransformersBits compares a run of Seq2SeqTrainer, then outputs that the model
// generates for four texts.
func TestRunsHaveTransformersBits(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			goldencount.Start(t, "models", r.Name+", run")
			m := r.fresh(t, "")
			rows := modeltest.PairRows(file)
			modeltest.Train(t, m.Task(), rows, 1, r.Losses, r.GradNorms)
			modeltest.SameWeights(t, m, r.Final)
			var texts []inputs.Text
			var ends []int64 // enough that texts end early
			for id := int64(3); id < 61; id += 4 {
				ends = append(ends, id)
			}
			for _, s := range rows[:4] {
				texts = append(texts, s.Text)
			}
			for i, g := range []auto.Generation{{MaxNewTokens: 12},
				{MaxNewTokens: 12, Sample: true, Temperature: 0.7, TopK: 20, TopP: 0.9},
				{MaxNewTokens: 12, RepetitionPenalty: 1.5}, {MaxNewTokens: 12, NumBeams: 3},
				{MaxNewTokens: 9, NumBeams: 4, LengthPenalty: new(2.0), EarlyStopping: auto.EarlyStoppingTrue,
					RepetitionPenalty: 1.3},
				{MaxNewTokens: 12, NumBeams: 2, LengthPenalty: new(-1.0)}, {MaxNewTokens: 12, NumBeams: 3, EOSTokenIDs: ends},
				{MaxNewTokens: 12, NumBeams: 4, LengthPenalty: new(3.0), EarlyStopping: auto.EarlyStoppingTrue,
					EOSTokenIDs: ends}} {
				torch.ManualSeed(3)
				got, err := m.GenerateIDs(t.Context(), texts, g)
				require.NoError(t, err)
				for j, want := range r.Texts[i] {
					is := func(id int64) bool { return id == m.EOSTokenIDs()[0] || slices.Contains(g.EOSTokenIDs, id) }
					if end := slices.IndexFunc(want, is); end >= 0 {
						want = want[:end+1]
					}
					if testenv.SameBits() {
						assert.Equal(t, want, got[j], "text %d of way %d", j, i)
					}
				}
			}
		})
	}
}

// TestSettingsThatAreNotSupportedAreRefused checks settings that would change what the model
// computes.
func TestSettingsThatAreNotSupportedAreRefused(t *testing.T) {
	modeltest.Refuses(t, "t5", map[string]string{
		`"feed_forward_proj": "gated-gated"`:   `no activation "gated"`,
		`"is_decoder": true`:                   "is_decoder is true; only false",
		`"is_encoder_decoder": false`:          "is_encoder_decoder is false; only true",
		`"quantization_config": {"bits": 4}`:   "only \"bitsandbytes\"",
		`"d_model": -1`:                        "HiddenSize is -1",
		`"d_model": 8, "hidden_size": 9`:       "which means the same, is 9",
		`"num_decoder_layers": 1000`:           "NumLayers is 1000",
		`"dropout_rate": 1`:                    "Dropout is 1",
		`"pad_token_id": 32128`:                "PadTokenID, DecoderStartTokenID and EOSTokenIDs are 32128",
		`"relative_attention_num_buckets": 6`:  "RelativeAttentionNumBuckets is 6",
		`"relative_attention_max_distance": 8`: "RelativeAttentionMaxDistance 8",
	}, func(dir string) error {
		_, err := auto.Seq2SeqLM(t.Context(), dir, auto.Options{FromConfig: true})
		return err
	})
	_, err := auto.NewSeq2SeqLM(t5.Config{Attention: "flash"}, nil)
	require.ErrorContains(t, err, `"flash"`)
	_, err = auto.NewCausalLM(t5.Config{}, nil)
	require.ErrorContains(t, err, "a T5ForConditionalGeneration is not for ForCausalLM")
}

// TestAnOutputLayerOfItsOwnIsKept: files of T5 1.1 contain a separate output layer, whatever their
// config.json says.
func TestAnOutputLayerOfItsOwnIsKept(t *testing.T) {
	models, _ := load(t)
	for _, r := range models {
		dir := t.TempDir()
		m := r.fresh(t, "")
		require.NoError(t, m.Save(dir))
		tied, err := auto.Seq2SeqLM(t.Context(), dir, auto.Options{Warnings: io.Discard})
		require.NoError(t, err)
		assert.Empty(t, tied.Report.Missing)
		assert.True(t, tied.OutputEmbeddings().Weight.Is(tied.InputEmbeddings().Weight))
		modeltest.SameWeights(t, tied, r.Initial)

		m.OutputEmbeddings().Weight = nn.Parameter(torch.Randn(61, 32))
		require.NoError(t, m.Save(dir))
		own, err := auto.Seq2SeqLM(t.Context(), dir, auto.Options{Warnings: io.Discard})
		require.NoError(t, err)
		assert.True(t, own.OutputEmbeddings().Weight.Equal(m.OutputEmbeddings().Weight))
		assert.False(t, own.OutputEmbeddings().Weight.Is(own.InputEmbeddings().Weight))
		again := t.TempDir()
		require.NoError(t, own.Save(again))
		for _, name := range []string{"config.json", "model.safetensors"} {
			a, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			b, err := os.ReadFile(filepath.Join(again, name))
			require.NoError(t, err)
			assert.Equal(t, string(a), string(b), name)
		}
	}
}
