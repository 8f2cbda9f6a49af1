package vit_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// TestModelsHaveTransformersBits compares initial weights, passes in training and evaluation, what
// from_pretrained draws, and 20 updates of Trainer.
func TestModelsHaveTransformersBits(t *testing.T) {
	modeltest.RunEncoders(t, "vit")
	modeltest.RunEncoders(t, "deit")
}

// TestSettingsThatAreImpossibleAreRefused checks invalid settings and those of other models.
func TestSettingsThatAreImpossibleAreRefused(t *testing.T) {
	modeltest.Refuses(t, "vit", map[string]string{
		`"image_size": [3, 4, 5]`:                   "image_size is [3, 4, 5]: want a number, or a list of height and width",
		`"image_size": -1`:                          "ImageSize is -1x-1",
		`"image_size": 1000000`:                     "ImageSize is 1000000x1000000",
		`"patch_size": [16, 0]`:                     "PatchSize is 16x0",
		`"patch_size": 225`:                         "PatchSize is 225x225, but ImageSize is 224x224",
		`"num_attention_heads": 7`:                  "HiddenSize is 768",
		`"num_channels": -3`:                        "NumChannels is -3",
		`"num_hidden_layers": 1000`:                 "NumLayers is 1000",
		`"hidden_dropout_prob": 1`:                  "HiddenDropout is 1",
		`"attention_probs_dropout_prob": -1`:        "AttentionDropout is -1",
		`"hidden_act": "mish"`:                      `HiddenAct: there is no activation "mish"`,
		`"layer_norm_eps": -1`:                      "LayerNormEps is -1",
		`"is_decoder": true`:                        "is_decoder is true; only false",
		`"id2label": {"0": "one", "2": "two"}`:      `id2label has the key "2"`,
		`"problem_type": "guess"`:                   `no ProblemType "guess"`,
		`"model_type": "beit"`:                      `model_type is "beit"; want one of ["clip" "convnext" "convnextv2" "deit" "dinov2"`,
		`"intermediate_size": -4`:                   "IntermediateSize is -4",
		`"initializer_range": -1`:                   "InitializerRange is -1",
		`"qkv_bias": "yes"`:                         "qkv_bias is",
		`"hidden_size": -8`:                         "HiddenSize is -8",
		`"pruned_heads": {"1": [2]}`:                "pruned_heads is",
		`"chunk_size_feed_forward": 2`:              "chunk_size_feed_forward is 2",
		`"position_embedding_type": "relative_key"`: "position_embedding_type is",
	}, func(dir string) error {
		_, err := auto.ImageClassification(t.Context(), dir, auto.Options{FromConfig: true})
		return err
	})
}

// tiny returns a model of the golden files, in evaluation mode.
func tiny(t *testing.T, name string) *auto.ImageClassifier {
	t.Helper()
	m := modeltest.LoadEncoders(t, name).Models[0].Fresh(t, auto.Options{})
	nn.SetTraining(m, false)
	return &auto.ImageClassifier{Model: m}
}

func TestFusedProjectionsGiveTheSameLogits(t *testing.T) {
	for _, e := range modeltest.LoadEncoders(t, "vit").Models { // the last has no biases
		m := &auto.ImageClassifier{Model: e.Fresh(t, auto.Options{})}
		nn.SetTraining(m, false)
		size := m.ImageLimits()
		torch.NoGrad(func() {
			x := torch.Randn(2, size.Channels, size.Height, size.Width)
			want := m.Forward(x)
			require.NoError(t, m.FuseQKVProjections(true))
			golden.Close(t, e.Name, m.Forward(x), want, 1e-4, 1e-6)
		})
	}
}

func TestPicturesOfOtherSizesAreRefused(t *testing.T) {
	m := tiny(t, "deit")
	failed := func(shape ...int64) error {
		return torch.Try(func() { torch.NoGrad(func() { m.Forward(torch.Zeros(shape...)) }) })
	}
	assert.ErrorContains(t, failed(1, 3, 12, 16), "the pictures have 12x16 pixels; the model is for 12x12")
	assert.ErrorContains(t, failed(1, 1, 12, 12), "the pixels are [1 1 12 12]; want [B, 3, height, width]")
	assert.ErrorContains(t, failed(3, 12, 12), "the pixels are [3 12 12]")
	require.NoError(t, m.InterpolatePosEncoding(true))
	assert.NoError(t, failed(1, 3, 14, 17))
	assert.ErrorContains(t, failed(1, 3, 3, 12), "the pictures have 3x12 pixels; want at least a patch, 4x4")
	require.NoError(t, m.InterpolatePosEncoding(false))
	assert.Error(t, failed(1, 3, 14, 17))
}

// TestPositionsOfRectanglesAreNotInterpolated: transformers fails, too, with another error.
func TestPositionsOfRectanglesAreNotInterpolated(t *testing.T) {
	testenv.RequireTorch(t)
	for _, setting := range []map[string]any{{"image_size": []int{8, 16}, "patch_size": 4}, {"image_size": 16,
		"patch_size": []int{4, 8}}} {
		setting["model_type"], setting["hidden_size"], setting["num_attention_heads"] = "vit", 8, 2
		setting["num_hidden_layers"] = 1
		m, err := auto.ImageClassification(t.Context(), modeltest.ConfigFolder(t, setting), auto.Options{FromConfig: true,
			Warnings: io.Discard})
		require.NoError(t, err)
		assert.ErrorContains(t, m.InterpolatePosEncoding(true), "cannot be interpolated")
		assert.NoError(t, m.InterpolatePosEncoding(false))
		dir := t.TempDir()
		require.NoError(t, m.Save(dir))
		text, err := os.ReadFile(filepath.Join(dir, "config.json"))
		require.NoError(t, err)
		assert.Contains(t, string(text), `"qkv_bias": true`)
	}
}

// TestNamesOfMemoryAreLoaded: a state_dict saved with torch.save by transformers 5 has other names
// than one saved with save_pretrained.
func TestNamesOfMemoryAreLoaded(t *testing.T) {
	m, dir := tiny(t, "vit"), t.TempDir()
	require.NoError(t, m.WriteConfig(dir))
	memory := strings.NewReplacer("encoder.layer.", "layers.", "attention.attention.query", "attention.q_proj",
		"attention.attention.key", "attention.k_proj", "attention.attention.value", "attention.v_proj",
		"attention.output.dense", "attention.o_proj", "intermediate.dense", "mlp.fc1", "output.dense", "mlp.fc2")
	state := nn.StateDict(m)
	for i := range state {
		state[i].Name = memory.Replace(state[i].Name)
	}
	require.Equal(t, "vit.layers.0.attention.q_proj.weight", state[4].Name)
	require.NoError(t, nn.SaveTensors(filepath.Join(dir, "model.safetensors"), state, nil))
	again, err := auto.ImageClassification(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	assert.Empty(t, again.Report.Unexpected)
	for i, want := range nn.StateDict(m) {
		golden.Bits(t, want.Name, nn.StateDict(again)[i].Tensor, want.Tensor)
	}
}
