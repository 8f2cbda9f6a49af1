package imagetest_test

import (
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/convnext"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/resnet"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// TestResNetHasTransformersBits compares initial weights, passes in training and evaluation with the
// running statistics, what from_pretrained draws, and 20 updates of Trainer.
func TestResNetHasTransformersBits(t *testing.T) { modeltest.RunEncoders(t, "resnet") }

func TestSettingsOfResNetThatAreImpossibleAreRefused(t *testing.T) {
	modeltest.Refuses(t, "resnet", map[string]string{
		`"embedding_size": -1`:                     "EmbeddingSize is -1",
		`"hidden_sizes": [8, 8]`:                   "HiddenSizes is [8 8] and Depths is [3 4 6 3]; want as many numbers",
		`"hidden_sizes": [8, 8], "depths": [1, 0]`: "HiddenSizes is [8 8] and Depths is [1 0]; want positive numbers",
		`"hidden_sizes": [], "depths": []`:         "at least one",
		`"hidden_sizes": [3], "depths": [1]`:       "HiddenSizes is [3]; want at least 4 channels for a bottleneck",
		`"depths": [3, 600, 6, 3]`:                 "the layers of Depths, [3 600 6 3], are too many; want at most 512",
		`"depths": "many"`:                         `depths is "many"`,
		`"layer_type": "wide"`:                     `layer_type is "wide"; want "basic" or "bottleneck"`,
		`"hidden_act": "mish"`:                     `HiddenAct: there is no activation "mish"`,
		`"num_channels": -3`:                       "NumChannels is -3",
		`"downsample_in_bottleneck": 3`:            "downsample_in_bottleneck is 3",
	}, func(dir string) error {
		_, err := auto.ImageClassification(t.Context(), dir, auto.Options{FromConfig: true})
		return err
	})
}

// TestWhatAResNetCannotDoIsNamed tries what ViT can do.
func TestWhatAResNetCannotDoIsNamed(t *testing.T) {
	testenv.RequireTorch(t)
	small := resnet.Config{EmbeddingSize: 4, HiddenSizes: []int64{4}, Depths: []int64{1}, LayerType: resnet.BasicLayer}
	m, err := auto.NewImageClassification(small, nil)
	require.NoError(t, err)
	assert.ErrorContains(t, m.AddLoRA(lora.Config{R: 2}), "a ResNet has no linear layer besides its head")
	assert.ErrorContains(t, m.InterpolatePosEncoding(true), "it takes pictures of any size")
	assert.ErrorContains(t, m.FuseQKVProjections(true), "ResNet have no fused query")
	_, err = engine.New(m.Task(), engine.Options{GradientCheckpointing: true})
	assert.ErrorContains(t, err, "ResNetForImageClassification would update its running statistics twice")
	m.SetGradientCheckpointing(false)
	assert.ErrorContains(t, torch.Try(func() { m.Forward(torch.Zeros(1, 2, 8, 8)) }),
		"the pixels are [1 2 8 8]; want [B, 3, height, width]")
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	_, err = auto.ImageClassification(t.Context(), dir, auto.Options{Attention: "eager", Warnings: io.Discard})
	assert.ErrorContains(t, err, `Options.Attention is "eager"; want none`)
}

// TestChannelsLastGivesTheSameLogits: the other order of numbers changes only the last bits.
func TestChannelsLastGivesTheSameLogits(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range []auto.Config{
		resnet.Config{EmbeddingSize: 4, HiddenSizes: []int64{8}, Depths: []int64{1}},
		convnext.Config{HiddenSizes: []int64{8, 8}, Depths: []int64{1, 1}, LayerScaleInitValue: 1},
	} {
		m, err := auto.NewImageClassification(c, nil)
		require.NoError(t, err)
		nn.SetTraining(m, false)
		torch.NoGrad(func() {
			x := torch.Randn(2, 3, 24, 24)
			want := m.Forward(x)
			nn.ToMemoryFormat(m, torch.ChannelsLast)
			golden.Close(t, m.Architecture(), m.Forward(x), want, 1e-4, 1e-6)
		})
	}
}
