package deberta_test

import (
	"encoding/json"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/deberta"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// TestModelsHaveTransformersBits compares initial weights, passes in training and evaluation, what
// from_pretrained draws, and 20 updates of Trainer, for four heads.
func TestModelsHaveTransformersBits(t *testing.T) { modeltest.RunEncoders(t, "deberta") }

// TestDistancesHaveTransformersClasses compares the classes of distances up to 600 tokens in both
// directions.
func TestDistancesHaveTransformersClasses(t *testing.T) {
	testenv.RequireTorch(t)
	text, err := os.ReadFile("testdata/buckets.json")
	require.NoError(t, err)
	var cases []struct {
		Buckets, Farthest int64
		Classes           []int64
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	require.Len(t, cases, 6)
	for _, c := range cases {
		apart := torch.TensorOptions{DType: torch.Int64}.Arange(-600, 601, 1)
		got := deberta.LogBuckets(apart, c.Buckets, c.Farthest)
		assert.Equal(t, c.Classes, torch.Values[int64](got), "%d of %d", c.Buckets, c.Farthest)
	}
}

// TestSettingsThatAreNotSupportedAreRefused checks settings that would change what the model
// computes, or that are invalid.
func TestSettingsThatAreNotSupportedAreRefused(t *testing.T) {
	modeltest.Refuses(t, "deberta-v2", map[string]string{
		`"relative_attention": true`:                           "relative_attention is true without a pos_att_type",
		`"pos_att_type": "p2c|p2p"`:                            `pos_att_type is ["p2c" "p2p"]`,
		`"pos_att_type": 3`:                                    "pos_att_type",
		`"position_buckets": 1`:                                "position_buckets is 1",
		`"position_buckets": 64, "max_relative_positions": 33`: "position_buckets is 64 for distances up to 32",
		`"norm_rel_ebd": "rms_norm"`:                           `norm_rel_ebd is "rms_norm"`,
		`"conv_kernel_size": 4`:                                "conv_kernel_size is 4",
		`"conv_groups": 7`:                                     "conv_groups is 7",
		`"conv_act": "mish"`:                                   `conv_act: there is no activation "mish"`,
		`"pooler_hidden_act": "mish"`:                          `pooler_hidden_act: there is no activation`,
		`"pooler_hidden_size": 5`:                              "pooler_hidden_size is 5",
		`"attention_head_size": 5`:                             "attention_head_size is 5",
		`"legacy": false, "embedding_size": 5`:                 "embedding_size is 5",
		`"embedding_size": -1`:                                 "EmbeddingSize is -1",
		`"type_vocab_size": -1`:                                "TypeVocabSize is -1",
		`"cls_dropout": 1`:                                     "cls_dropout is 1",
		`"pooler_dropout": -1`:                                 "pooler_dropout is -1",
		`"num_hidden_layers": 1000`:                            "NumLayers is 1000",
		`"is_decoder": true`:                                   "is_decoder is true; only false",
	}, func(dir string) error {
		_, err := auto.MaskedLM(t.Context(), dir, auto.Options{FromConfig: true})
		return err
	})
}

func TestWhatItCannotDoIsRefused(t *testing.T) {
	f := modeltest.LoadEncoders(t, "deberta")
	dir := modeltest.ConfigFolder(t, f.Models[0].Config)
	_, err := auto.SequenceClassification(t.Context(), dir, auto.Options{FromConfig: true, Attention: "sdpa"})
	require.ErrorContains(t, err, `has the attention implementation "eager" alone`)
	m, err := auto.SequenceClassification(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard})
	require.NoError(t, err)
	require.ErrorContains(t, m.SetPaddingFree(true), "auto: DebertaV2 cannot leave padding out")
	require.ErrorContains(t, m.FuseQKVProjections(true), "auto: the layers of DebertaV2 have no fused query")
}

// TestAdaptersAreOnQueryAndValue checks the default target modules.
func TestAdaptersAreOnQueryAndValue(t *testing.T) {
	f := modeltest.LoadEncoders(t, "deberta")
	m := f.Models[0].Fresh(t, auto.Options{})
	require.NoError(t, m.AddLoRA(lora.Config{R: 2}))
	assert.Len(t, m.LoRA().Layers(), 4, "two per layer: %q", m.LoRA().Layers())
	require.NoError(t, m.MergeLoRA())
}

func TestTokenizerGivesTheLibrarysTokens(t *testing.T) { modeltest.SameTokens(t) }
