package segformer_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/segformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// TestModelsHaveTransformersBits compares initial weights, passes in training and evaluation with
// the running statistics, what from_pretrained draws, and 20 updates of Trainer.
func TestModelsHaveTransformersBits(t *testing.T) { modeltest.RunEncoders(t, "segformer") }

func TestSettingsThatAreImpossibleAreRefused(t *testing.T) {
	modeltest.Refuses(t, "segformer", map[string]string{
		`"num_encoder_blocks": 3`:              "num_encoder_blocks is 3, but Depths is [2 2 2 2]; want a number for each stage",
		`"depths": [1]`:                        "HiddenSizes is [32 64 160 256] and Depths is [1]; want as many numbers",
		`"strides": [1, 2]`:                    "Strides is [1 2] and Depths is [2 2 2 2]; want as many numbers in each",
		`"sr_ratios": [8, 4, 0, 1]`:            "SRRatios is [8 4 0 1]; want numbers from 1 to 1024",
		`"patch_sizes": [7, 3, 3, 4000]`:       "PatchSizes is [7 3 3 4000]; want numbers from 1 to 1024",
		`"mlp_ratios": [4, 4, 4, -4]`:          "MLPRatios is [4 4 4 -4]; want numbers from 1",
		`"num_attention_heads": [1, 2, 5, 7]`:  "want a multiple of the heads in each stage",
		`"drop_path_rate": 1.0`:                "DropPathRate is 1",
		`"classifier_dropout_prob": -0.1`:      "ClassifierDropout is -0.1",
		`"hidden_dropout_prob": 2`:             "HiddenDropout is 2",
		`"attention_probs_dropout_prob": 1`:    "AttentionDropout is 1",
		`"initializer_range": -1`:              "InitializerRange is -1",
		`"decoder_hidden_size": -1`:            "DecoderHiddenSize is -1",
		`"num_channels": -3`:                   "NumChannels is -3",
		`"hidden_act": "mish"`:                 `HiddenAct: there is no activation "mish"`,
		`"semantic_loss_ignore_index": "none"`: "semantic_loss_ignore_index is",
	}, func(dir string) error {
		_, err := auto.SemanticSegmentation(t.Context(), dir, auto.Options{FromConfig: true})
		return err
	})
}

// small is a model for quick tests.
func small() segformer.Config {
	return segformer.Config{HiddenSizes: []int64{4, 8}, Depths: []int64{1, 1}, NumHeads: []int64{1, 2},
		SRRatios: []int64{2, 1}, PatchSizes: []int64{7, 3}, Strides: []int64{4, 2}, MLPRatios: []int64{2, 2},
		DecoderHiddenSize: 8, HiddenDropout: 0.1}
}

// TestPicturesThatAreTooSmallAreRefused: a stage would have no keys left.
func TestPicturesThatAreTooSmallAreRefused(t *testing.T) {
	testenv.RequireTorch(t)
	m, err := auto.NewSemanticSegmentation(small(), nil)
	require.NoError(t, err)
	forward := func(shape ...int64) error {
		return torch.Try(func() { torch.NoGrad(func() { m.Forward(torch.Zeros(shape...)) }) })
	}
	assert.NoError(t, forward(1, 3, 5, 19))
	assert.ErrorContains(t, forward(1, 3, 4, 19), "the pictures have 4x19 pixels, which stage 0 makes 1x5")
	assert.ErrorContains(t, forward(1, 1, 16, 16), "the pixels are [1 1 16 16]; want [B, 3, height, width]")
}

// TestNamesInMemoryLoad covers a state_dict saved with torch.save, and names of peft's adapters.
func TestNamesInMemoryLoad(t *testing.T) {
	testenv.RequireTorch(t)
	m, err := auto.NewSemanticSegmentation(small(), nil)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, m.WriteConfig(dir))
	state := nn.StateDict(m)
	for i, s := range state {
		state[i].Name = m.AdapterName(s.Name)
	}
	require.NoError(t, nn.SaveTensors(dir+"/model.safetensors", state, nil))
	again, err := auto.SemanticSegmentation(t.Context(), dir, auto.Options{})
	require.NoError(t, err)
	for i, s := range nn.StateDict(again) {
		golden.Bits(t, s.Name, s.Tensor, state[i].Tensor)
	}
	for own, want := range map[string]string{
		"segformer.encoder.block.1.0.attention.self.query": "segformer.stages.1.blocks.0.attention.q_proj",
		"segformer.encoder.block.0.0.attention.self.sr": "segformer.stages.0.blocks.0.attention." +
			"sequence_reduction.sequence_reduction",
		"segformer.encoder.block.0.0.layer_norm_1.bias":   "segformer.stages.0.blocks.0.layernorm_before.bias",
		"segformer.encoder.patch_embeddings.1.layer_norm": "segformer.stages.1.patch_embeddings.layer_norm",
		"segformer.encoder.layer_norm.1.weight":           "segformer.stages.1.layer_norm.weight",
		"decode_head.linear_c.0.proj":                     "decode_head.linear_projections.0.proj",
	} {
		assert.Equal(t, want, m.AdapterName(own))
	}
}

// TestCheckpointingGivesTheSameGradients with the same draws; the decode head is not computed
// again, which would update its running statistics twice.
func TestCheckpointingGivesTheSameGradients(t *testing.T) {
	testenv.RequireTorch(t)
	m, err := auto.NewSemanticSegmentation(small(), nil)
	require.NoError(t, err)
	grads := func(checkpointing bool) (grads []torch.Named) {
		m.SetGradientCheckpointing(checkpointing)
		torch.ManualSeed(7)
		m.Forward(torch.Randn(4, 3, 16, 16)).Square().Sum(torch.DefaultDType).Backward()
		for _, p := range nn.Params(m) {
			grads = append(grads, torch.Named{Name: p.Name, Tensor: p.Tensor.Grad().Clone()})
			p.Tensor.Grad().Zero_()
		}
		return grads
	}
	want := grads(false)
	for i, got := range grads(true) {
		golden.Close(t, got.Name, got.Tensor, want[i].Tensor, 1e-4, 1e-5)
	}
	assert.Equal(t, 2., m.OwnModules()[1].Module.(*segformer.DecodeHead).BatchNorm.NumBatchesTracked.Item())
}
