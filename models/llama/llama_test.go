package llama_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/llama"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// files are the output of testdata/llama.py and testdata/families.py, with the number of models in
// each.
var files = map[string]int{"llama": 7, "windows": 2, "qwen3": 2, "phi3": 2, "gemma2": 2, "gemma3": 2,
	"smollm3": 1, "olmo2": 1, "granite": 1}

// recorded is a model in one of the files.
type recorded struct {
	Name           string
	Attention      transformer.Attention // in the run
	Config         map[string]any
	Parameters     []string
	Initial, Final map[string]string
	Generator      string
	Cases          []modeltest.CausalCase
	Losses         []string
	GradNorms      []string `json:"grad_norms"`
	Texts          [][]int64

	file *golden.File // the tensors
}

func load(t *testing.T) (models []recorded) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	for name, count := range files {
		text, err := os.ReadFile("testdata/" + name + ".json")
		require.NoError(t, err)
		var f struct{ Models []recorded }
		require.NoError(t, json.Unmarshal(text, &f))
		require.Len(t, f.Models, count, "models of %s", name)
		file := golden.Load(t, "testdata/"+name+".safetensors")
		for _, r := range f.Models {
			r.file = file
			models = append(models, r)
		}
	}
	return models
}

// folder returns a folder with the config.json that transformers wrote.
func (r recorded) folder(t *testing.T) string {
	t.Helper()
	return modeltest.ConfigFolder(t, r.Config)
}

// fresh makes the model with the seed 42.
func (r recorded) fresh(t *testing.T, a transformer.Attention) *auto.CausalLanguageModel {
	t.Helper()
	torch.ManualSeed(42)
	m, err := auto.CausalLM(t.Context(), r.folder(t), auto.Options{FromConfig: true, Attention: a, Warnings: io.Discard})
	require.NoError(t, err)
	return m
}

func TestSameSeedGivesTransformersWeights(t *testing.T) {
	for _, r := range load(t) {
		t.Run(r.Name, func(t *testing.T) {
			m := r.fresh(t, "")
			assert.Equal(t, r.Generator, modeltest.Generator(), "the generator has another state")
			var names []string
			for _, p := range nn.Params(m) {
				names = append(names, p.Name)
			}
			require.Equal(t, r.Parameters, names)
			modeltest.SameWeights(t, m, r.Initial)

			dir := t.TempDir()
			require.NoError(t, m.Save(dir))
			var config map[string]any
			text, err := os.ReadFile(filepath.Join(dir, "config.json"))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &config))
			assert.Equal(t, r.Config, config, "the saved settings are those that were loaded")
			again, err := auto.CausalLM(t.Context(), dir, auto.Options{Warnings: io.Discard})
			require.NoError(t, err)
			assert.Empty(t, again.Report.Missing)
			assert.Empty(t, again.Report.Unexpected)
			modeltest.SameWeights(t, again, r.Initial)
		})
	}
}

func TestForwardAndBackwardHaveTransformersBits(t *testing.T) {
	for _, r := range load(t) {
		for _, c := range r.Cases {
			t.Run(c.Name, func(t *testing.T) {
				goldencount.Start(t, "models", c.Name)
				torch.Scope(func() { c.Compare(t, r.fresh(t, c.Attention), modeltest.CausalRows(r.file), r.file) })
			})
		}
	}
}

// TestRunsHaveTransformersBits compares a run of Trainer over windows of two, then texts that the
// model generates.
func TestRunsHaveTransformersBits(t *testing.T) {
	for _, r := range load(t) {
		t.Run(r.Name, func(t *testing.T) {
			goldencount.Start(t, "models", r.Name+", run")
			m := r.fresh(t, r.Attention)
			modeltest.Train(t, m.Task(), modeltest.CausalRows(r.file), 2, r.Losses, r.GradNorms)
			modeltest.SameWeights(t, m, r.Final)
			for i, g := range []auto.Generation{{MaxNewTokens: 30},
				{MaxNewTokens: 30, Sample: true, Temperature: 0.7, TopK: 20, TopP: 0.9}, {MaxNewTokens: 20, NumBeams: 3}} {
				torch.ManualSeed(3)
				ids, err := m.GenerateIDs(t.Context(), []int64{3, 14, 15}, g)
				require.NoError(t, err)
				if testenv.SameBits() {
					assert.Equal(t, r.Texts[i], ids)
				}
			}
		})
	}
}

// TestWhatIsKeptOfATextMakesNoDifference checks that with cached keys and values, positions
// continue correctly and grouped heads use the right keys.
func TestWhatIsKeptOfATextMakesNoDifference(t *testing.T) {
	for _, r := range load(t) {
		for _, a := range []transformer.Attention{transformer.SDPA, transformer.Eager} {
			m := r.fresh(t, a)
			torch.NoGrad(func() { m.InputEmbeddings().Weight.MulScalar_(20) }) // makes the logits of tokens differ more
			prompt := []int64{3, 14, 15, 9, 2, 6}
			got, err := m.GenerateIDs(t.Context(), prompt, auto.Generation{MaxNewTokens: 16, EOSTokenIDs: []int64{}})
			require.NoError(t, err)
			require.Len(t, got, 16)
			ids := append(prompt, got...)
			nn.Evaluating(m, func() {
				torch.NoGrad(func() {
					logits := m.Forward(torch.From(ids, 1, int64(len(ids))), torch.Tensor{}, torch.Tensor{})
					best := torch.Values[int64](logits.ArgMax(-1, false))
					from := 0
					if r.Name == "phi3 with longrope" { // it used the short factors for up to 12 tokens
						from = 12 - len(prompt)
					}
					assert.Equal(t, got[from:], best[len(prompt)-1+from:len(ids)-1], "%s, %s", r.Name, a)
				})
			})
		}
	}
}

func TestLayersAreUnits(t *testing.T) {
	for _, r := range load(t) {
		modeltest.LayersAreUnits(t, int(r.Config["num_hidden_layers"].(float64)), func() (inputs.Model, error) {
			return auto.CausalLM(t.Context(), r.folder(t), auto.Options{FromConfig: true, Warnings: io.Discard})
		})
	}
}

// TestAdaptersGoOnEachType uses the layers that peft chooses: two per layer, or one if the
// projections are fused.
func TestAdaptersGoOnEachType(t *testing.T) {
	for _, r := range load(t) {
		m := r.fresh(t, r.Attention)
		require.NoError(t, m.AddLoRA(lora.Config{}), r.Name)
		m.SetGradientCheckpointing(true)
		m.Forward(torch.From([]int64{3, 14, 15, 9, 2, 6}, 1, 6), torch.Tensor{}, torch.Tensor{}).Square().
			Mean(torch.DefaultDType).Backward()
		trained := 0
		for _, p := range nn.Params(m) {
			if p.Tensor.NeedsGrad() {
				trained++
				assert.True(t, p.Tensor.Grad().Defined(), "%s: %s has no gradient", r.Name, p.Name)
			}
		}
		each := 4 // two matrices in each of two layers
		if strings.HasPrefix(r.Name, "phi3") {
			each = 2
		}
		assert.Equal(t, each*int(r.Config["num_hidden_layers"].(float64)), trained, r.Name)
	}
}

// TestOlderFilesAreRead reads files of transformers 4, in which the settings of rotary embeddings
// have other names.
func TestOlderFilesAreRead(t *testing.T) {
	for text, want := range map[string]llama.Rope{
		`"rope_theta": 500000.0, "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
			"original_max_position_embeddings": 8192, "rope_type": "llama3"}`: {Type: "llama3", Theta: 500000, Factor: 32,
			HighFreqFactor: 4, LowFreqFactor: 1, OriginalMaxPositions: 8192},
		`"rope_theta": 100000`:                              {Theta: 100000},
		`"rope_scaling": null`:                              {},
		`"rope_scaling": {"type": "linear", "factor": 2.0}`: {Type: "linear", Factor: 2},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"model_type": "llama",
			"pad_token_id": -1, "pretraining_tp": 1, `+text+`}`), 0o600))
		c, err := llama.ReadConfig(dir)
		require.NoError(t, err)
		assert.Equal(t, want, c.Rope)
		assert.EqualValues(t, -1, *c.PadTokenID)
	}
}

// TestSettingsThatAreNotSupportedAreRefused checks settings that would change what the model
// computes.
func TestSettingsThatAreNotSupportedAreRefused(t *testing.T) {
	read := func(dir string) error {
		_, err := auto.CausalLM(t.Context(), dir, auto.Options{FromConfig: true})
		return err
	}
	modeltest.Refuses(t, "llama", map[string]string{
		`"rope_parameters": {"rope_type": "yarn"}`:                `rope_type is "yarn"; only`,
		`"rope_parameters": {"rope_type": "linear"}`:              "factor is 0; want a positive number",
		`"rope_parameters": {"rope_type": "llama3", "factor": 8}`: "high_freq_factor is 0; want more than low_freq_factor, 0",
		`"rope_parameters": {"rope_theta": -1}`:                   "rope_theta is -1",
		`"rope_parameters": {"partial_rotary_factor": 0.5}`:       "partial_rotary_factor is 0.5",
		`"rope_parameters": [1]`:                                  "rope_parameters is [1]",
		`"hidden_act": "gelu_10"`:                                 `no activation "gelu_10"`,
		`"num_attention_heads": 7`:                                "no multiple of the 7 heads",
		`"num_key_value_heads": 5`:                                "no multiple of the 5 heads of keys and values",
		`"head_dim": 7`:                                           "HeadDim is 7; want an even number",
		`"attention_dropout": 1`:                                  "AttentionDropout is 1",
		`"pad_token_id": 32000`:                                   "PadTokenID is 32000",
		`"eos_token_id": [3, -1]`:                                 "EOSTokenIDs are [3 -1]",
		`"rms_norm_eps": -1`:                                      "RMSNormEps is -1",
		`"num_hidden_layers": 513`:                                "NumLayers is 513",
		`"quantization_config": {"bits": 4}`:                      `quantization_config: quant_method is ""; only`,
	}, read)
	modeltest.Refuses(t, "qwen2", map[string]string{
		`"head_dim": 8`:                                    "head_dim is 8; qwen2 supports only that of hidden_size, 4096, and 32 heads",
		`"use_sliding_window": true`:                       "there is no sliding_window",
		`"use_sliding_window": true, "sliding_window": -2`: "SlidingWindow is -2; want a positive",
		`"use_sliding_window": true, "sliding_window": 4, "max_window_layers": -1`:    "max_window_layers is -1",
		`"use_sliding_window": true, "sliding_window": 4, "max_window_layers": "all"`: `max_window_layers is "all"`,
		`"layer_types": ["full_attention"]`:                                           "layer_types has 1 types; want one for each of the 32",
		`"num_hidden_layers": 1, "layer_types": ["sliding_attention"]`:                "there is no sliding_window",
		`"num_hidden_layers": 1, "layer_types": ["chunked_attention"]`:                `layer_types[0] is "chunked_attention"; want`,
	}, read)
	modeltest.Refuses(t, "phi3", map[string]string{
		`"rope_parameters": {"rope_type": "llama3"}`:        `rope_type is "llama3"; only ["default" "longrope"]`,
		`"rope_scaling": {"type": "su"}`:                    "factor is []; want 48 positive numbers",
		`"partial_rotary_factor": 0.01`:                     "partial_rotary_factor is 0.01; want",
		`"rope_parameters": {"partial_rotary_factor": 1.5}`: "partial_rotary_factor is 1.5; want",
		`"resid_pdrop": 1`:                                  "ResidualDropout is 1",
		`"hidden_size": 32, "num_attention_heads": 4, "rope_parameters": {"rope_type": "longrope",
			"short_factor": [1, 1, 1, 0], "long_factor": [1, 1, 1, 1]}`: "short_factor is [1 1 1 0]; want 4 positive",
		`"hidden_size": 32, "num_attention_heads": 4, "rope_parameters": {"rope_type": "longrope",
			"short_factor": [1, 1, 1, 1], "long_factor": [1, 1, 1, 1], "factor": -2}`: "factor is -2",
	}, read)
	modeltest.Refuses(t, "smollm3", map[string]string{
		`"use_sliding_window": true`:   "use_sliding_window is true; only false",
		`"no_rope_layers": [1, 0]`:     "no_rope_layers has 2 numbers; want one for each of the 36",
		`"no_rope_layer_interval": -1`: "no_rope_layer_interval is -1",
	}, read)
	modeltest.Refuses(t, "granite", map[string]string{
		`"logits_scaling": -1`:       "LogitsScaling is -1",
		`"embedding_multiplier": -1`: "EmbeddingMultiplier is -1",
		`"residual_multiplier": -1`:  "ResidualMultiplier is -1",
		`"attention_multiplier": -1`: "AttentionMultiplier is -1",
	}, read)
	modeltest.Refuses(t, "gemma3_text", map[string]string{
		`"attn_logit_softcapping": 50`:                                                         "attn_logit_softcapping is 50; only null",
		`"rope_parameters": {"rope_theta": 1}`:                                                 "are not those of full_attention and of sliding_attention",
		`"rope_parameters": {"sliding_attention": {"rope_type": "yarn"}}`:                      `sliding_attention: rope_type is "yarn"`,
		`"rope_parameters": {"full_attention": {"rope_type": "linear"}}`:                       "factor is 0",
		`"rope_parameters": {"full_attention": 1}`:                                             "rope_parameters is 1",
		`"sliding_window_pattern": 0`:                                                          "sliding_window_pattern is 0; want",
		`"tie_word_embeddings": false`:                                                         "tie_word_embeddings is false; only true",
		`"num_hidden_layers": 1, "sliding_window": null, "layer_types": ["sliding_attention"]`: "there is no sliding_window",
	}, read)
	modeltest.Refuses(t, "gemma", map[string]string{
		`"tie_word_embeddings": false`:        "tie_word_embeddings is false; only true",
		`"use_bidirectional_attention": true`: "use_bidirectional_attention is true; only false",
	}, read)
	for want, c := range map[string]llama.Config{
		`model_type is "gemma4"; want one of ["gemma"`:                      {Type: "gemma4"},
		`attention_bias is for ["gemma" "gemma2" "`:                         {Type: "qwen2", AttentionBias: true},
		`mlp_bias is for ["granite" "llama" "smollm3"]; the model is gemma`: {Type: "gemma", MLPBias: true},
		`layer_types is for ["gemma2" `:                                     {Type: "mistral", LayerTypes: []string{llama.FullAttention}},
		`; the model is llama`:                                              {SlidingWindow: 8},
		"QueryPreAttnScalar is -1":                                          {Type: "gemma2", QueryPreAttnScalar: -1},
		"final_logit_softcapping is -2; want a positive number, or -1": {Type: "gemma2", AttnLogitSoftcapping: 0.5,
			FinalLogitSoftcapping: -2},
		"LocalRope is for gemma3_text; the model is gemma2": {Type: "gemma2", LocalRope: llama.Rope{Theta: 1}},
		`final_logit_softcapping is for ["gemma2`:           {FinalLogitSoftcapping: 30},
		"NumKeyValueHeads is -1":                            {NumKeyValueHeads: -1},
		`"flash"`:                                           {Attention: "flash"},
	} {
		_, err := auto.NewCausalLM(c, nil)
		require.ErrorContains(t, err, want)
	}
}

// TestOlderFilesHaveWindows reads files of transformers 4, which do not list the type of each
// layer.
func TestOlderFilesHaveWindows(t *testing.T) {
	const full, sliding = llama.FullAttention, llama.SlidingAttention
	for text, want := range map[string][]string{
		`"model_type": "qwen2", "use_sliding_window": false, "sliding_window": 131072, "max_window_layers": 1`: {full, full, full},
		`"model_type": "qwen2", "use_sliding_window": true, "sliding_window": 8, "max_window_layers": 1`:       {full, sliding, sliding},
		`"model_type": "qwen3", "use_sliding_window": true, "sliding_window": 8, "max_window_layers": 0`:       {sliding, sliding, sliding},
		`"model_type": "qwen2", "use_sliding_window": true, "sliding_window": null`:                            {full, full, full},
		`"model_type": "gemma2"`: {sliding, full, sliding},
		`"model_type": "gemma3_text", "sliding_window_pattern": 3, "rope_local_base_freq": 100, "rope_theta": 1000,
			"rope_scaling": {"factor": 8, "rope_type": "linear"}`: {sliding, sliding, full},
		`"model_type": "mistral"`:                         {sliding, sliding, sliding},
		`"model_type": "mistral", "sliding_window": null`: {full, full, full},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"num_hidden_layers": 3, "hidden_size": 8,
			"num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 8, "vocab_size": 4, `+text+`}`), 0o600))
		m, err := auto.CausalLM(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard})
		require.NoError(t, err, text)
		require.NoError(t, m.Save(dir))
		again, err := llama.ReadConfig(dir)
		require.NoError(t, err, text)
		if again.Type == "gemma3_text" {
			assert.Equal(t, []llama.Rope{{Type: "linear", Theta: 1000, Factor: 8}, {Type: "default", Theta: 100}},
				[]llama.Rope{again.Rope, again.LocalRope})
		}
		if again.LayerTypes == nil { // Mistral has no layer_types
			again.LayerTypes = []string{full, full, full}
			if again.SlidingWindow > 0 {
				again.LayerTypes = []string{sliding, sliding, sliding}
			}
		}
		assert.Equal(t, want, again.LayerTypes, text)
	}
}

// TestLayersWithoutPositions reads SmolLM3's layers without rotary embeddings, given as an interval
// or as a list.
func TestLayersWithoutPositions(t *testing.T) {
	for text, want := range map[string][]int64{
		`"num_hidden_layers": 5`:                              {1, 1, 1, 0, 1},
		`"num_hidden_layers": 5, "no_rope_layer_interval": 2`: {1, 0, 1, 0, 1},
		`"num_hidden_layers": 2, "no_rope_layers": [0, 1, 1]`: {0, 1, 1},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"model_type": "smollm3", `+text+`}`), 0o600))
		c, err := llama.ReadConfig(dir)
		require.NoError(t, err)
		assert.Equal(t, want, c.NoRopeLayers)
		assert.True(t, c.TieWordEmbeddings)
		_, err = c.Blueprint()
		require.NoError(t, err)
	}
}

// TestACapMakesAttentionEager checks that attention with a soft cap is eager by default, since
// fused attention ignores the cap. Fused attention can be requested explicitly.
func TestACapMakesAttentionEager(t *testing.T) {
	for _, r := range load(t) {
		if r.Name != "gemma2" {
			continue
		}
		ids := torch.From([]int64{3, 14, 15, 9}, 1, 4)
		logits := func(a transformer.Attention) torch.Tensor {
			m := r.fresh(t, a)
			nn.SetTraining(m, false)
			return m.Forward(ids, torch.Tensor{}, torch.Tensor{})
		}
		assert.True(t, logits("").Equal(logits(transformer.Eager)))
		assert.False(t, logits("").Equal(logits(transformer.SDPA)))
		return
	}
	t.Fatal("no model has a cap")
}

// TestAWindowIsNoLimit checks that texts may be longer than the sliding window.
func TestAWindowIsNoLimit(t *testing.T) {
	for want, c := range map[int64]llama.Config{
		131072: {Type: "mistral"},
		99:     {Type: "mistral", SlidingWindow: 24, MaxPositions: 99},
		2048:   {},
		32768:  {Type: "qwen2"},
	} {
		b, err := c.Blueprint()
		require.NoError(t, err)
		assert.Equal(t, want, b.Limits.MaxLength)
	}
}
