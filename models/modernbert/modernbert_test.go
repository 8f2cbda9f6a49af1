package modernbert_test

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
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// TestModelsHaveTransformersBits compares initial weights, passes in training and evaluation, what
// from_pretrained draws, and 20 updates of Trainer, for four heads.
func TestModelsHaveTransformersBits(t *testing.T) { modeltest.RunEncoders(t, "modernbert") }

// TestSettingsThatAreNotSupportedAreRefused checks settings that would change what the model
// computes.
func TestSettingsThatAreNotSupportedAreRefused(t *testing.T) {
	modeltest.Refuses(t, "modernbert", map[string]string{
		`"sparse_prediction": true`:                                        "sparse_prediction is true; only false",
		`"head_dim": 32`:                                                   "head_dim is 32; only null",
		`"rope_scaling": {"rope_type": "linear"}`:                          "rope_scaling is",
		`"rope_parameters": {"full_attention": {"rope_type": "yarn"}}`:     `rope_type of full_attention is "yarn"`,
		`"rope_parameters": {"causal": {"rope_theta": 5}}`:                 `rope_parameters has ["causal"]`,
		`"layer_types": ["full_attention"]`:                                `LayerTypes are ["full_attention"]`,
		`"num_hidden_layers": 1, "layer_types": ["chunked_attention"]`:     `LayerTypes are ["chunked_attention"]`,
		`"global_attn_every_n_layers": -1`:                                 "global_attn_every_n_layers is -1",
		`"global_attn_every_n_layers": 2, "num_hidden_layers": 1000000000`: "NumLayers is 1000000000",
		`"num_hidden_layers": 1000`:                                        "NumLayers is 1000",
		`"classifier_pooling": "max"`:                                      `ClassifierPooling is "max"`,
		`"num_attention_heads": 7`:                                         "HiddenSize is 768",
		`"hidden_size": 12`:                                                "HiddenSize is 12",
		`"pad_token_id": 50368`:                                            "PadTokenID is 50368",
		`"local_attention": -1`:                                            "LocalAttention is -1",
		`"mlp_dropout": 1`:                                                 "MLPDropout is 1",
		`"hidden_activation": "mish"`:                                      `HiddenActivation: there is no activation "mish"`,
		`"classifier_activation": "mish"`:                                  `ClassifierActivation: there is no activation`,
		`"is_decoder": true`:                                               "is_decoder is true; only false",
	}, func(dir string) error {
		_, err := auto.MaskedLM(t.Context(), dir, auto.Options{FromConfig: true})
		return err
	})
}

// TestSettingsOfOlderFilesMeanTheSame uses the settings of transformers 4, as in files on the Hub.
func TestSettingsOfOlderFilesMeanTheSame(t *testing.T) {
	testenv.RequireTorch(t)
	older := map[string]any{"model_type": "modernbert", "vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 5,
		"num_attention_heads": 4, "intermediate_size": 40, "pad_token_id": 0, "global_attn_every_n_layers": 2,
		"global_rope_theta": 500.0, "local_rope_theta": 50.0, "position_embedding_type": "absolute"}
	m, err := auto.MaskedLM(t.Context(), modeltest.ConfigFolder(t, older), auto.Options{FromConfig: true})
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, m.WriteConfig(dir))
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	var config map[string]any
	require.NoError(t, json.Unmarshal(text, &config))
	assert.Equal(t, map[string]any{"full_attention": map[string]any{"rope_type": "default", "rope_theta": 500.0},
		"sliding_attention": map[string]any{"rope_type": "default", "rope_theta": 50.0}}, config["rope_parameters"])
	assert.Equal(t, []any{"full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention"},
		config["layer_types"])
	assert.NotContains(t, config, "global_rope_theta")
}

// TestTheHeadOfAMaskedModelStaysInAClassifier checks that only the classifier is drawn, as in
// transformers.
func TestTheHeadOfAMaskedModelStaysInAClassifier(t *testing.T) {
	f := modeltest.LoadEncoders(t, "modernbert")
	i := slices.IndexFunc(f.Models, func(e *modeltest.Encoder) bool { return e.Head == "MaskedLM" })
	masked, dir := f.Models[i].Fresh(t, auto.Options{}), t.TempDir()
	require.NoError(t, masked.Save(dir))
	m, err := auto.SequenceClassification(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"classifier.weight", "classifier.bias"}, m.Report.Initialized)
}

// TestWithoutPaddingEagerAttentionHasTheSameLogits uses texts longer and shorter than the window.
func TestWithoutPaddingEagerAttentionHasTheSameLogits(t *testing.T) {
	f := modeltest.LoadEncoders(t, "modernbert")
	for _, e := range f.Models {
		if e.Head != "SequenceClassification" {
			continue
		}
		m := e.Fresh(t, auto.Options{Attention: transformer.Eager})
		nn.SetTraining(m, false)
		task, err := classify.NewTask(m, classify.TaskOptions{})
		require.NoError(t, err)
		for _, n := range []int{4, 48} {
			var samples []classify.Sample
			for _, r := range modeltest.EncoderRows(f.Values, false)[:n] {
				samples = append(samples, r.Sequence())
			}
			b, err := task.Collate(samples)
			require.NoError(t, err)
			torch.NoGrad(func() {
				require.NoError(t, m.SetPaddingFree(false))
				want := task.Predict(engine.ForwardPass{}, b).Logits[0]
				require.NoError(t, m.SetPaddingFree(true))
				golden.Close(t, e.Name, task.Predict(engine.ForwardPass{}, b).Logits[0], want, 1e-4, 1e-6)
			})
		}
	}
}

// TestAdaptersAreOnQueryKeyAndValue checks the default target modules.
func TestAdaptersAreOnQueryKeyAndValue(t *testing.T) {
	f := modeltest.LoadEncoders(t, "modernbert")
	m := f.Models[0].Fresh(t, auto.Options{})
	require.NoError(t, m.AddLoRA(lora.Config{R: 2}))
	assert.Len(t, m.LoRA().Layers(), 4, "one for each layer: %q", m.LoRA().Layers())
	require.NoError(t, m.MergeLoRA())
}

func TestTokenizerGivesTheLibrarysTokens(t *testing.T) { modeltest.SameTokens(t) }
