package llama_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/llama"
	"github.com/gotrainer/gotrainer/models/pretrained"
)

// FuzzConfig checks that a config.json is either refused, or can be written and read again with the
// same result.
func FuzzConfig(f *testing.F) {
	for name := range files {
		text, err := os.ReadFile("testdata/" + name + ".json")
		require.NoError(f, err)
		var recorded struct {
			Models []struct{ Config json.RawMessage }
		}
		require.NoError(f, json.Unmarshal(text, &recorded))
		for _, m := range recorded.Models {
			f.Add([]byte(m.Config))
		}
	}
	f.Add([]byte(`{"model_type": "gemma3_text", "sliding_window_pattern": 3, "rope_local_base_freq": 1, "rope_scaling": null}`))
	f.Add([]byte(`{"model_type": "qwen2", "use_sliding_window": true, "sliding_window": 8, "max_window_layers": 0}`))
	f.Add([]byte(`{"model_type": "smollm3", "no_rope_layer_interval": 2}`))
	f.Add([]byte(`{"model_type": "mixtral", "num_experts": 4, "router_aux_loss_coef": 0, "router_jitter_noise": 0.1}`))
	f.Add([]byte(`{"model_type": "qwen2_moe", "num_local_experts": 4, "qkv_bias": false, "use_sliding_window": true,
		"sliding_window": 8, "max_window_layers": 3, "mlp_only_layers": [1]}`))
	f.Add([]byte(`{"model_type": "qwen3_moe", "head_dim": 6, "norm_topk_prob": true, "decoder_sparse_step": 2}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := pretrained.ParseConfig(text)
		if err != nil {
			return
		}
		b, err := llama.Blueprint(d, classify.Head{}, "")
		if err != nil {
			return
		}
		written, err := b.Document(b.LanguageModel)
		require.NoError(t, err)
		again, err := llama.Blueprint(written, classify.Head{}, "")
		require.NoError(t, err)
		rewritten, err := again.Document(again.LanguageModel)
		require.NoError(t, err)
		assert.Equal(t, written, rewritten)
	})
}
