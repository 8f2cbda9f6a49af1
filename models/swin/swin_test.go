package swin_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/swin"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// TestModelsHaveTransformersBits compares initial weights, passes in training and evaluation, what
// from_pretrained draws, and 20 updates of Trainer.
func TestModelsHaveTransformersBits(t *testing.T) { modeltest.RunEncoders(t, "swin") }

func TestSettingsThatAreImpossibleAreRefused(t *testing.T) {
	modeltest.Refuses(t, "swin", map[string]string{
		`"depths": [1]`:                                      "depths is [1] and num_heads is [3 6 12 24]; want as many numbers in each",
		`"depths": [2, 2, 0, 2]`:                             "want positive numbers",
		`"depths": [2, 2, 600, 2]`:                           "the layers of Depths, [2 2 600 2], are too many; want at most 512",
		`"num_heads": [3, 6, 12, 25]`:                        "NumHeads is [3 6 12 25]; want divisors of the channels, which stage 3 has 768 of",
		`"num_layers": 3`:                                    "num_layers is 3, but Depths is [2 2 6 2]; want a number for each stage",
		`"hidden_size": 96`:                                  "hidden_size is 96; want the channels of the last stage, 768",
		`"window_size": 65`:                                  "WindowSize is 65; want at most 64",
		`"window_size": -7`:                                  "WindowSize is -7",
		`"mlp_ratio": 0.001`:                                 "MLPRatio is 0.001, which leaves nothing of 96 channels",
		`"embed_dim": -1`:                                    "EmbedDim is -1",
		`"image_size": [3, 4, 5]`:                            "image_size is [3, 4, 5]: want a number, or a list of height and width",
		`"patch_size": 225`:                                  "PatchSize is 225x225, but ImageSize is 224x224",
		`"num_channels": -3`:                                 "NumChannels is -3",
		`"drop_path_rate": 1.0`:                              "DropPathRate is 1",
		`"hidden_dropout_prob": 2`:                           "HiddenDropout is 2",
		`"attention_probs_dropout_prob": 1`:                  "AttentionDropout is 1",
		`"initializer_range": -1`:                            "InitializerRange is -1",
		`"layer_norm_eps": -1`:                               "LayerNormEps is -1",
		`"hidden_act": "mish"`:                               `HiddenAct: there is no activation "mish"`,
		`"use_absolute_embeddings": true, "image_size": 225`: "ImageSize is 225x225; want a multiple of PatchSize, 4x4",
	}, func(dir string) error {
		_, err := auto.ImageClassification(t.Context(), dir, auto.Options{FromConfig: true})
		return err
	})
}

// small is a model for quick tests.
func small() swin.Config {
	return swin.Config{EmbedDim: 4, Depths: []int64{2, 2}, NumHeads: []int64{1, 2}, WindowSize: 3, MLPRatio: 2,
		PatchSize: swin.Size{Height: 2, Width: 2}, ImageSize: swin.Size{Height: 24, Width: 24}, HiddenDropout: 0.1}
}

// fresh makes a model with random weights in which positions matter, in evaluation mode.
func fresh(t *testing.T, c swin.Config) *auto.ImageClassifier {
	t.Helper()
	testenv.RequireTorch(t)
	torch.ManualSeed(3)
	m, err := auto.NewImageClassification(c, nil)
	require.NoError(t, err)
	torch.NoGrad(func() {
		for _, p := range nn.Params(m) {
			p.Tensor.Add_(torch.Randn(p.Tensor.Shape()...).MulScalar(0.3))
		}
	})
	nn.SetTraining(m, false)
	return m
}

func try(m *auto.ImageClassifier, shape ...int64) error {
	return torch.Try(func() { torch.NoGrad(func() { m.Forward(torch.Zeros(shape...)) }) })
}

// TestPicturesThatDoNotFillAWindowAreRefused: the bias of attention is for whole windows.
func TestPicturesThatDoNotFillAWindowAreRefused(t *testing.T) {
	m := fresh(t, small())
	assert.NoError(t, try(m, 1, 3, 9, 31))
	assert.ErrorContains(t, try(m, 1, 3, 8, 31), "the pictures have 8x31 pixels, a map of 2x8 in stage 1; want at least "+
		"a window, 3x3")
	assert.ErrorContains(t, try(m, 1, 1, 24, 24), "the pixels are [1 1 24 24]; want [B, 3, height, width]")
	assert.ErrorContains(t, m.InterpolatePosEncoding(true), "it takes pictures of any size")
}

func TestPositionsNeedTheirSizeOrInterpolation(t *testing.T) {
	c := small()
	c.UseAbsoluteEmbeddings = true
	m := fresh(t, c)
	assert.NoError(t, try(m, 1, 3, 24, 24))
	assert.ErrorContains(t, try(m, 1, 3, 24, 26), "the pictures have 24x26 pixels; the model is for 24x24")
	require.NoError(t, m.InterpolatePosEncoding(true))
	assert.NoError(t, try(m, 1, 3, 24, 26))
	assert.ErrorContains(t, try(m, 1, 3, 24, 25), "the pictures have 24x25 pixels; want a multiple of a patch, 2x2")
	c.ImageSize = swin.Size{Height: 24, Width: 26}
	assert.ErrorContains(t, fresh(t, c).InterpolatePosEncoding(true), "cannot be interpolated")
}

// TestAnImageOfOneWindowChangesNothingForOthers: transformers stops shifting windows after the
// first image whose map is a single window.
func TestAnImageOfOneWindowChangesNothingForOthers(t *testing.T) {
	m := fresh(t, small())
	torch.NoGrad(func() {
		x := torch.Randn(2, 3, 30, 27)
		want := m.Forward(x)
		require.NoError(t, try(m, 1, 3, 12, 12))
		golden.Bits(t, "logits", m.Forward(x), want)
	})
}

func TestFusedProjectionsGiveTheSameLogits(t *testing.T) {
	m := fresh(t, small())
	torch.NoGrad(func() {
		x := torch.Randn(2, 3, 24, 24)
		want := m.Forward(x)
		require.NoError(t, m.FuseQKVProjections(true))
		golden.Close(t, "logits", m.Forward(x), want, 1e-4, 1e-5)
	})
}

// TestNamesInMemoryLoad covers a state_dict saved with torch.save, names of peft's adapters, and
// what older versions of transformers wrote besides weights.
func TestNamesInMemoryLoad(t *testing.T) {
	m, dir := fresh(t, small()), t.TempDir()
	require.NoError(t, m.WriteConfig(dir))
	state := nn.StateDict(m)
	for i, s := range state {
		state[i].Name = m.AdapterName(s.Name)
	}
	index := torch.Named{Name: "swin.encoder.layers.0.blocks.0.attention.self.relative_position_index",
		Tensor: torch.Zeros(9, 9)}
	require.NoError(t, nn.SaveTensors(dir+"/model.safetensors", append(state, index), nil))
	var warnings strings.Builder
	again, err := auto.ImageClassification(t.Context(), dir, auto.Options{Warnings: &warnings})
	require.NoError(t, err)
	assert.NotContains(t, warnings.String(), "relative_position_index")
	for i, s := range nn.StateDict(again) {
		golden.Bits(t, s.Name, s.Tensor, state[i].Tensor)
	}
	for own, want := range map[string]string{
		"swin.encoder.layers.1.blocks.0.attention.self.query": "swin.encoder.layers.1.blocks.0.attention.q_proj",
		"swin.encoder.layers.0.blocks.1.attention.self.relative_position_bias_table": "swin.encoder.layers.0.blocks.1." +
			"attention.relative_position_bias.relative_position_bias_table",
		"swin.encoder.layers.0.blocks.1.output.dense": "swin.encoder.layers.0.blocks.1.mlp.fc2",
	} {
		assert.Equal(t, want, m.AdapterName(own))
	}
}
