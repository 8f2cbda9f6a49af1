package dinov2_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// TestModelsHaveTransformersBits compares initial weights, passes in training and evaluation, what
// from_pretrained draws, and 20 updates of Trainer.
func TestModelsHaveTransformersBits(t *testing.T) { modeltest.RunEncoders(t, "dinov2") }

func TestSettingsThatAreImpossibleAreRefused(t *testing.T) {
	modeltest.Refuses(t, "dinov2", map[string]string{
		`"image_size": [224, 224]`:          "image_size is [224, 224]",
		`"patch_size": 225`:                 "PatchSize is 225 and ImageSize is 224",
		`"image_size": 1000000`:             "PatchSize is 14 and ImageSize is 1000000",
		`"num_attention_heads": 7`:          "HiddenSize is 768, which is no multiple of the 7 heads",
		`"mlp_ratio": -1`:                   "MLPRatio is -1",
		`"mlp_ratio": 2.5`:                  "mlp_ratio is 2.5",
		`"num_hidden_layers": 1000`:         "NumLayers is 1000",
		`"num_channels": -3`:                "NumChannels is -3",
		`"hidden_dropout_prob": 1`:          "HiddenDropout is 1",
		`"attention_probs_dropout_prob": 1`: "AttentionDropout is 1",
		`"drop_path_rate": 1`:               "DropPathRate is 1",
		`"hidden_act": "mish"`:              `HiddenAct: there is no activation "mish"`,
		`"initializer_range": -1`:           "InitializerRange is -1",
		`"layer_norm_eps": -1`:              "LayerNormEps is -1",
		`"layerscale_value": 0.0`:           "layerscale_value is 0; want another number",
	}, load(t))
	modeltest.Refuses(t, "dinov2_with_registers", map[string]string{
		`"num_register_tokens": -1`:      "NumRegisterTokens is -1; want 0 to",
		`"num_register_tokens": 1000000`: "NumRegisterTokens is 1000000; want 0 to",
		`"patch_size": 225`:              "PatchSize is 225 and ImageSize is 224",
	}, load(t))
}

func load(t *testing.T) func(dir string) error {
	return func(dir string) error {
		_, err := auto.ImageClassification(t.Context(), dir, auto.Options{FromConfig: true})
		return err
	}
}

// tiny returns a model of the golden file, in evaluation mode.
func tiny(t *testing.T, i int) *auto.ImageClassifier {
	t.Helper()
	m := modeltest.LoadEncoders(t, "dinov2").Models[i].Fresh(t, auto.Options{})
	nn.SetTraining(m, false)
	return &auto.ImageClassifier{Model: m}
}

func TestFusedProjectionsGiveTheSameLogits(t *testing.T) {
	for i := range 5 { // the third and the last have no biases
		m := tiny(t, i)
		torch.NoGrad(func() {
			x := torch.Randn(2, m.ImageLimits().Channels, 12, 12)
			want := m.Forward(x)
			require.NoError(t, m.FuseQKVProjections(true))
			golden.Close(t, "logits", m.Forward(x), want, 1e-4, 1e-6)
		})
	}
}

func TestImagesThatAreTooSmallAreRefused(t *testing.T) {
	m := tiny(t, 0)
	failed := func(shape ...int64) error {
		return torch.Try(func() { torch.NoGrad(func() { m.Forward(torch.Zeros(shape...)) }) })
	}
	assert.NoError(t, failed(1, 3, 4, 30))
	assert.ErrorContains(t, failed(1, 3, 3, 12), "the images have 3x12 pixels; want at least a patch, 4x4")
	assert.ErrorContains(t, failed(1, 1, 12, 12), "the pixels are [1 1 12 12]; want [B, 3, height, width]")
	assert.ErrorContains(t, m.InterpolatePosEncoding(true), "it takes pictures of any size")
}

func TestAdaptersUpdateQueryAndValue(t *testing.T) {
	m := tiny(t, 3)
	require.NoError(t, m.AddLoRA(lora.Config{R: 2}))
	assert.Contains(t, m.LoRA().Layers(), "dinov2_with_registers.encoder.layer.1.attention.attention.value")
}
