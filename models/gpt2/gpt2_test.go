package gpt2_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/gpt2"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// recorded is the output of testdata/gpt2.py.
type recorded struct {
	Config            map[string]any
	Parameters, Saved []string
	Initial, Fine     map[string]string
	Generator         string
	FineGenerator     string `json:"fine_generator"`
	Cases             []modeltest.CausalCase
	Runs              []goldenRun
	Texts             []goldenText

	file *golden.File
}

// goldenRun is a run of transformers' Trainer.
type goldenRun struct {
	Name         string
	Accumulation int
	Losses       []string
	GradNorms    []string `json:"grad_norms"`
	EvalLoss     string   `json:"eval_loss"`
	Final        map[string]string
	Generator    string
}

// goldenText is what transformers' generate added to a text.
type goldenText struct {
	Settings struct {
		MaxNewTokens      int     `json:"max_new_tokens"`
		DoSample          bool    `json:"do_sample"`
		Temperature       float64 `json:"temperature"`
		TopK              *int    `json:"top_k"`
		TopP              float64 `json:"top_p"`
		RepetitionPenalty float64 `json:"repetition_penalty"`
		EOSTokenID        []int64 `json:"eos_token_id"`
	}
	IDs       []int64
	Generator string
}

func load(t *testing.T) *recorded {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	text, err := os.ReadFile("testdata/gpt2.json")
	require.NoError(t, err)
	r := &recorded{file: golden.Load(t, "testdata/gpt2.safetensors")}
	require.NoError(t, json.Unmarshal(text, r))
	return r
}

func tiny() gpt2.Config {
	return gpt2.Config{VocabSize: 61, MaxPositions: 40, HiddenSize: 32, NumLayers: 2, NumHeads: 4,
		EOSTokenIDs: []int64{60}}
}

// fresh makes a model with the seed 42.
func fresh(t *testing.T, c gpt2.Config) *auto.CausalLanguageModel {
	t.Helper()
	torch.ManualSeed(42)
	m, err := auto.NewCausalLM(c, nil)
	require.NoError(t, err)
	return m
}

func TestSameSeedGivesTransformersWeights(t *testing.T) {
	r := load(t)
	m := fresh(t, tiny())
	require.Equal(t, "GPT2LMHeadModel", m.Architecture())
	assert.Equal(t, r.Generator, modeltest.Generator(), "the generator has another state")
	var names []string
	for _, p := range nn.Params(m) {
		names = append(names, p.Name)
	}
	require.Equal(t, r.Parameters, names)
	modeltest.SameWeights(t, m, r.Initial)
}

func TestSavedFolderIsTransformers(t *testing.T) {
	r := load(t)
	m, dir := fresh(t, tiny()), t.TempDir()
	require.NoError(t, m.Save(dir))
	var config map[string]any
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &config))
	for key, value := range config {
		assert.Equal(t, r.Config[key], value, key)
	}
	again, err := auto.CausalLM(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	assert.Empty(t, again.Report.Missing)
	assert.Empty(t, again.Report.Unexpected)
	modeltest.SameWeights(t, again, r.Initial)
	assert.Equal(t, []int64{60}, again.EOSTokenIDs())

	other := filepath.Join(t.TempDir(), "of transformers") // with all keys that transformers writes
	require.NoError(t, os.Mkdir(other, 0o700))
	text, err = json.Marshal(r.Config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(other, "config.json"), text, 0o600))
	require.NoError(t, os.Link(filepath.Join(dir, "model.safetensors"), filepath.Join(other, "model.safetensors")))
	again, err = auto.CausalLM(t.Context(), other, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	modeltest.SameWeights(t, again, r.Initial)
}

// TestSettingsThatAreNotSupportedAreRefused checks settings that would change what the model
// computes.
func TestSettingsThatAreNotSupportedAreRefused(t *testing.T) {
	modeltest.Refuses(t, "gpt2", map[string]string{
		`"is_causal": false`:                      "is_causal is false; only true",
		`"add_cross_attention": true`:             "add_cross_attention is true; only false",
		`"scale_attn_by_inverse_layer_idx": true`: "scale_attn_by_inverse_layer_idx is true; only false",
		`"tie_word_embeddings": false`:            "tie_word_embeddings is false; only true",
		`"activation_function": "gelu_10"`:        `no activation "gelu_10"`,
		`"n_embd": "large"`:                       `n_embd is "large"`,
		`"n_embd": 8, "hidden_size": 16`:          "n_embd is 8, but hidden_size, which means the same, is 16",
		`"eos_token_id": "end"`:                   `eos_token_id is "end"`,
		`"eos_token_id": [3, -1]`:                 "EOSTokenIDs has -1; want ids of at least 0",
		`"n_head": 7`:                             "no multiple of the 7 heads",
		`"attn_pdrop": 1`:                         "AttentionDropout is 1",
		`"n_layer": 513`:                          "NumLayers is 513; want at most 512",
	}, func(dir string) error {
		_, err := auto.CausalLM(t.Context(), dir, auto.Options{FromConfig: true})
		return err
	})
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"model_type": "bloom"}`), 0o600))
	_, err := auto.CausalLM(t.Context(), dir, auto.Options{})
	require.ErrorContains(t, err, `model_type is "bloom"; want one of ["gemma" `)
	for want, c := range map[string]gpt2.Config{
		"NumLayers is -1":    {NumLayers: -1},
		"LayerNormEps is -1": {LayerNormEps: -1},
		`"flash"`:            {Attention: "flash"},
	} {
		_, err := auto.NewCausalLM(c, nil)
		require.ErrorContains(t, err, want)
	}
}

// TestSettingsMayHaveTheNamesOfOtherModels checks transformers' attribute_map, and token ids
// outside of the vocabulary, which transformers accepts.
func TestSettingsMayHaveTheNamesOfOtherModels(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"model_type": "gpt2", "hidden_size": 24,
		"num_attention_heads": 3, "num_hidden_layers": 2, "n_layer": 2, "vocab_size": 90, "eos_token_id": [50256, 7]}`),
		0o600))
	c, err := gpt2.ReadConfig(dir)
	require.NoError(t, err)
	assert.Equal(t, gpt2.Config{HiddenSize: 24, NumHeads: 3, NumLayers: 2, VocabSize: 90, EOSTokenIDs: []int64{50256, 7},
		Extra: c.Extra}, c)
	assert.Empty(t, c.Extra)
	m, err := auto.NewCausalLM(c, nil)
	require.NoError(t, err)
	assert.Zero(t, m.Limits().PadTokenID)
	assert.Equal(t, []int64{50256, 7}, m.EOSTokenIDs())
}

// The files of OpenAI's models contain only the decoder, and the triangle of the causal mask.
func TestDecoderAloneIsAWholeModel(t *testing.T) {
	r := load(t)
	m, dir := fresh(t, tiny()), t.TempDir()
	require.NoError(t, m.WriteConfig(dir))
	decoder := nn.Children(m)[0]
	require.Equal(t, "transformer", decoder.Name)
	old := &withMasks{Model: decoder.Module, Bias: torch.Ones(1, 1, 40, 40)}
	require.NoError(t, nn.Save(filepath.Join(dir, "model.safetensors"), old, nil))
	torch.ManualSeed(5)
	var warnings countingWriter
	again, err := auto.CausalLM(t.Context(), dir, auto.Options{Warnings: &warnings})
	require.NoError(t, err)
	assert.Equal(t, r.FineGenerator, modeltest.Generator(), "the generator has another state")
	modeltest.SameWeights(t, again, r.Fine)
	assert.Len(t, again.Report.Unexpected, 1)
	assert.NotContains(t, string(warnings), "attn.bias")
}

// withMasks is a decoder in the form of older files.
type withMasks struct {
	Model any
	Bias  torch.Tensor
}

func (w *withMasks) OwnModules() []nn.Named { return nn.Children(w.Model) }
func (w *withMasks) OwnParams() []torch.Named {
	return []torch.Named{{Name: "h.0.attn.bias", Tensor: w.Bias}}
}

type countingWriter []byte

func (w *countingWriter) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}

func TestForwardAndBackwardHaveTransformersBits(t *testing.T) {
	r := load(t)
	for _, c := range r.Cases {
		t.Run(c.Name, func(t *testing.T) {
			goldencount.Start(t, "models", "gpt2 "+c.Name)
			torch.Scope(func() {
				config := tiny()
				config.Attention, config.PadTokenID = c.Attention, new(int64(0))
				config.EmbeddingDropout, config.AttentionDropout, config.ResidualDropout = &c.Dropout, &c.Dropout, &c.Dropout
				c.Compare(t, fresh(t, config), modeltest.CausalRows(r.file), r.file)
			})
		})
	}
}

// TestRunsHaveTransformersBits compares shuffled runs of Trainer over texts of different lengths,
// over windows whose loss is averaged over their tokens, and over blocks, then texts that the last
// model generates.
func TestRunsHaveTransformersBits(t *testing.T) {
	r := load(t)
	rows := modeltest.CausalRows(r.file)
	var all [][]int64
	for _, s := range rows {
		all = append(all, s.InputIDs)
	}
	blocks, err := causallm.Blocks(all, 8)
	require.NoError(t, err)
	for _, run := range r.Runs {
		t.Run(run.Name, func(t *testing.T) {
			goldencount.Start(t, "models", "gpt2 run of "+run.Name)
			m, samples := fresh(t, tiny()), rows
			if run.Name == "blocks" {
				samples = blocks
			}
			task, err := causallm.NewTask(m, causallm.TaskOptions{CountFirstToken: true})
			require.NoError(t, err)
			fit := modeltest.Train(t, task, samples, run.Accumulation, run.Losses, run.GradNorms)
			modeltest.SameWeights(t, m, run.Final)
			evaluated, err := fit.Evaluate(t.Context(), data.Slice[causallm.Sample](rows[:6]))
			require.NoError(t, err)
			modeltest.SameNumber(t, "loss of the evaluation", evaluated["loss"], run.EvalLoss)
			if testenv.SameBits() {
				assert.Equal(t, run.Generator, modeltest.Generator(), "the generator has another state")
			}
			if run.Name == "blocks" {
				writesTransformersTexts(t, m, r.Texts)
			}
		})
	}
}

func TestLayersAreUnits(t *testing.T) {
	modeltest.LayersAreUnits(t, 2, func() (inputs.Model, error) { return auto.NewCausalLM(tiny(), nil) })
}

// writesTransformersTexts compares tokens one by one, on machines on which the probabilities have
// the recorded bits.
func writesTransformersTexts(t *testing.T, m *auto.CausalLanguageModel, texts []goldenText) {
	t.Helper()
	for _, text := range texts {
		s := text.Settings
		g := auto.Generation{MaxNewTokens: s.MaxNewTokens, Sample: s.DoSample, Temperature: s.Temperature, TopP: s.TopP,
			RepetitionPenalty: s.RepetitionPenalty, EOSTokenIDs: s.EOSTokenID}
		if s.TopK != nil {
			if g.TopK = *s.TopK; g.TopK == 0 {
				g.TopK = -1
			}
		}
		torch.ManualSeed(3)
		ids, err := m.GenerateIDs(t.Context(), []int64{3, 14, 15}, g)
		require.NoError(t, err)
		if testenv.SameBits() {
			assert.Equal(t, text.IDs, ids, "%+v", s)
			assert.Equal(t, text.Generator, modeltest.Generator(), "the generator has another state: %+v", s)
		}
	}
}
