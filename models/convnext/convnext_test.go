package convnext_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/convnext"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// TestModelsHaveTransformersBits compares initial weights, passes in training and evaluation, what
// from_pretrained draws, and 20 updates of Trainer.
func TestModelsHaveTransformersBits(t *testing.T) { modeltest.RunEncoders(t, "convnext") }

func TestSettingsThatAreImpossibleAreRefused(t *testing.T) {
	modeltest.Refuses(t, "convnext", map[string]string{
		`"num_stages": 3`:                    "num_stages is 3, but Depths is [3 3 9 3]; want a number for each stage",
		`"depths": [1]`:                      "HiddenSizes is [96 192 384 768] and Depths is [1]; want as many numbers",
		`"depths": [3, 3, 9, -3]`:            "want positive numbers",
		`"drop_path_rate": 1.0`:              "DropPathRate is 1",
		`"layer_norm_eps": -1`:               "LayerNormEps is -1",
		`"initializer_range": -1`:            "InitializerRange is -1",
		`"image_size": [3, 4, 5]`:            "image_size is [3, 4, 5]: want a number, or a list of height and width",
		`"patch_size": [16, 0]`:              "PatchSize is 16x0",
		`"num_channels": -3`:                 "NumChannels is -3",
		`"hidden_act": "mish"`:               `HiddenAct: there is no activation "mish"`,
		`"layer_scale_init_value": "little"`: "layer_scale_init_value is",
		`"id2label": {"0": "one", "2": "x"}`: `id2label has the key "2"`,
	}, func(dir string) error {
		_, err := auto.ImageClassification(t.Context(), dir, auto.Options{FromConfig: true})
		return err
	})
	_, err := auto.NewImageClassification(convnext.Config{DropPathRate: -1}, nil)
	assert.ErrorContains(t, err, "DropPathRate is -1")
}

// TestPicturesThatAreTooSmallAreRefused: a stage would have no rows left.
func TestPicturesThatAreTooSmallAreRefused(t *testing.T) {
	testenv.RequireTorch(t)
	c := convnext.Config{HiddenSizes: []int64{4, 4, 4}, Depths: []int64{1, 1, 1}, V2: true}
	m, err := auto.NewImageClassification(c, nil)
	require.NoError(t, err)
	forward := func(shape ...int64) error {
		return torch.Try(func() { torch.NoGrad(func() { m.Forward(torch.Zeros(shape...)) }) })
	}
	assert.NoError(t, forward(1, 3, 16, 19))
	assert.ErrorContains(t, forward(1, 3, 16, 15), "the pictures have 16x15 pixels; want at least 16x16")
	assert.ErrorContains(t, forward(1, 1, 16, 16), "the pixels are [1 1 16 16]; want [B, 3, height, width]")
	assert.ErrorContains(t, m.InterpolatePosEncoding(true), "it takes pictures of any size")
}

// TestSkippedLayersKeepTheMean: what is kept is divided by the probability of being kept.
func TestSkippedLayersKeepTheMean(t *testing.T) {
	testenv.RequireTorch(t)
	torch.ManualSeed(1)
	d := &transformer.DropPath{P: 0.25}
	x := torch.Ones(4000, 2, 1)
	y := d.Forward(x)
	assert.InDelta(t, 1, y.Mean(torch.DefaultDType).Item(), 0.05)
	first, second := y.Select(1, 0), y.Select(1, 1)
	assert.True(t, first.Equal(second), "the values of a sample are skipped together")
	d.SetTraining(false)
	assert.True(t, d.Forward(x).Is(x))
}

// TestCheckpointingGivesTheSameGradients with the same draws of skipped layers; only the order of
// sums may differ.
func TestCheckpointingGivesTheSameGradients(t *testing.T) {
	for _, e := range modeltest.LoadEncoders(t, "convnext").Models {
		grads := func(checkpointing bool) (grads []torch.Named) {
			m := &auto.ImageClassifier{Model: e.Fresh(t, auto.Options{})}
			m.SetGradientCheckpointing(checkpointing)
			size := m.ImageLimits()
			torch.ManualSeed(7)
			m.Forward(torch.Randn(4, size.Channels, size.Height, size.Width)).Square().Sum(torch.DefaultDType).Backward()
			for _, p := range nn.Params(m) {
				grads = append(grads, torch.Named{Name: p.Name, Tensor: p.Tensor.Grad()})
			}
			return grads
		}
		want := grads(false)
		for i, got := range grads(true) {
			golden.Close(t, got.Name, got.Tensor, want[i].Tensor, 1e-4, 1e-5)
		}
	}
}
