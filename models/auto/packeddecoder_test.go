package auto_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/dpo"
	"github.com/gotrainer/gotrainer/models/grpo"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/kto"
	"github.com/gotrainer/gotrainer/models/reward"
	"github.com/gotrainer/gotrainer/models/sft"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

const decoderSizes = `"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
	"num_key_value_heads": 2, "head_dim": 4, "intermediate_size": 24, "max_position_embeddings": 64, "pad_token_id": 0,
	"eos_token_id": 1, "bos_token_id": 2, "rope_theta": 10000`

// decoders are models that can skip padding, with parts of their config.json.
var decoders = map[string]string{
	"gpt2": `"vocab_size": 40, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64, "resid_pdrop": 0,
		"embd_pdrop": 0, "attn_pdrop": 0, "eos_token_id": 1, "bos_token_id": 2, "pad_token_id": 0`,
	"llama":   decoderSizes,
	"mistral": `"sliding_window": 4, ` + decoderSizes,
	"gemma2":  `"sliding_window": 4, "query_pre_attn_scalar": 9, ` + decoderSizes,
	"qwen3":   decoderSizes,
	"olmo2":   decoderSizes,
	"mixtral": `"num_local_experts": 4, "num_experts_per_tok": 2, ` + decoderSizes,
	"phi3": `"original_max_position_embeddings": 8, "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.5],
		"long_factor": [2.0, 3.0]}, ` + decoderSizes,
}

func decoderFolder(t *testing.T, kind string) string {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf(`{"model_type": %q, %s}`, kind, decoders[kind])
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o666))
	return dir
}

// learned are texts as samples that are learned from their second token on.
func learned(list []inputs.Text) (samples []causallm.Sample) {
	for _, x := range list {
		s := causallm.Sample{Text: x, Labels: append([]int64{}, x.InputIDs...)}
		s.Labels[0] = inputs.IgnoreIndex
		samples = append(samples, s)
	}
	return samples
}

// TestPackedTextsDoNotSeeEachOther compares texts that are joined to rows with padded texts.
func TestPackedTextsDoNotSeeEachOther(t *testing.T) {
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	// No text is longer than 8 tokens in the batch of short texts, for which phi3 has other factors.
	batches := map[string][]int{"short": {3, 7, 1, 8, 7, 3, 5, 2}, "long": {12, 9, 4, 12}}
	for kind := range decoders {
		dir := decoderFolder(t, kind)
		for _, attention := range []transformer.Attention{transformer.SDPA, transformer.Eager} {
			torch.ManualSeed(11)
			m, err := auto.CausalLM(t.Context(), dir, auto.Options{FromConfig: true, Attention: attention, Warnings: io.Discard})
			require.NoError(t, err)
			tasks := map[string]engine.Task[causallm.Sample, causallm.Batch]{"causallm": m.Task()}
			tasks["sft"], err = m.SFTTask(sft.TaskOptions{})
			require.NoError(t, err)
			for what, task := range tasks {
				for claim, lengths := range batches {
					name := fmt.Sprintf("%s, %s, %s, %s", kind, attention, what, claim)
					samples := learned(texts(lengths, false))
					joined, err := causallm.Pack(samples, 16, causallm.BFD)
					require.NoError(t, err)
					require.Less(t, len(joined), len(samples))
					loss := func(samples []causallm.Sample) func() torch.Tensor {
						b, err := task.Collate(samples)
						require.NoError(t, err, name)
						return func() torch.Tensor { return task.Loss(engine.ForwardPass{}, b).Value }
					}
					require.NoError(t, m.SetPaddingFree(false))
					want, value := gradients(m.Model, loss(samples))
					require.NoError(t, m.SetPaddingFree(true))
					m.SetGradientCheckpointing(claim == "long")
					for how, batch := range map[string][]causallm.Sample{"joined": joined, "padding left out": samples} {
						got, free := gradients(m.Model, loss(batch))
						assert.InDelta(t, value, free, 1e-5, "%s, %s", name, how)
						require.Len(t, got, len(want), name)
						for param, g := range want {
							golden.Close(t, name+", "+how+": "+param, got[param], g, 1e-4, 2e-6)
						}
					}
					m.SetGradientCheckpointing(false)
				}
			}
		}
	}
}

// TestPreferencesWithoutPadding compares the losses of preferences with and without padding.
func TestPreferencesWithoutPadding(t *testing.T) {
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	torch.ManualSeed(11)
	dir := decoderFolder(t, "llama")
	lm, err := auto.CausalLM(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard})
	require.NoError(t, err)
	scorer, err := auto.RewardModel(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard})
	require.NoError(t, err)
	pairs := []dpo.Sample{{PromptIDs: []int64{2, 5, 6}, ChosenIDs: []int64{7, 8, 1}, RejectedIDs: []int64{9, 1}},
		{PromptIDs: []int64{2, 11}, ChosenIDs: []int64{12, 1}, RejectedIDs: []int64{13, 14, 15, 16, 1}}}
	preferences, err := lm.DPOTask(dpo.TaskOptions{})
	require.NoError(t, err)
	unpaired, err := lm.KTOTask(kto.TaskOptions{})
	require.NoError(t, err)
	rewards, err := reward.NewTask(scorer, reward.TaskOptions{})
	require.NoError(t, err)
	free := func(on bool) {
		require.NoError(t, lm.SetPaddingFree(on))
		require.NoError(t, scorer.SetPaddingFree(on))
	}
	losses := map[string]func() torch.Tensor{
		"dpo": func() torch.Tensor {
			b, err := preferences.Collate(pairs)
			require.NoError(t, err)
			return preferences.Loss(engine.ForwardPass{}, b).Value
		},
		"kto": func() torch.Tensor {
			b, err := unpaired.Collate([]kto.Sample{{PromptIDs: []int64{2, 5, 6}, CompletionIDs: []int64{7, 8, 1}, Label: true},
				{PromptIDs: []int64{2, 11}, CompletionIDs: []int64{12, 13, 14, 15, 1}}})
			require.NoError(t, err)
			return unpaired.Loss(engine.ForwardPass{}, b).Value
		},
	}
	for what, loss := range losses {
		free(false)
		want, value := gradients(lm.Model, loss)
		free(true)
		got, packed := gradients(lm.Model, loss)
		assert.InDelta(t, value, packed, 1e-6, what)
		for param, g := range want {
			golden.Close(t, what+": "+param, got[param], g, 1e-4, 1e-6)
		}
	}
	loss := func() torch.Tensor {
		b, err := rewards.Collate([]reward.Sample{{ChosenIDs: []int64{2, 5, 6, 1}, RejectedIDs: []int64{2, 5, 1}},
			{ChosenIDs: []int64{2, 1}, RejectedIDs: []int64{2, 9, 8, 7, 1}}})
		require.NoError(t, err)
		return rewards.Loss(engine.ForwardPass{}, b).Value
	}
	free(false)
	want, value := gradients(scorer.Model, loss)
	free(true)
	got, packed := gradients(scorer.Model, loss)
	assert.InDelta(t, value, packed, 1e-6, "reward")
	for param, g := range want {
		golden.Close(t, "reward: "+param, got[param], g, 1e-4, 1e-6)
	}
}

func TestWhatCannotBePackedSaysWhy(t *testing.T) {
	testenv.RequireTorch(t)
	m, err := auto.CausalLM(t.Context(), decoderFolder(t, "llama"), auto.Options{FromConfig: true, Warnings: io.Discard})
	require.NoError(t, err)
	joined := causallm.Sample{Text: inputs.Text{InputIDs: []int64{3, 4, 5}}, Lengths: []int64{2, 1}}
	_, err = m.Task().Collate([]causallm.Sample{joined})
	require.ErrorContains(t, err, "which only a model without padding keeps apart: SetPaddingFree(true)")
	require.NoError(t, m.SetPaddingFree(true))
	b, err := m.Task().Collate([]causallm.Sample{joined, {Text: inputs.Text{InputIDs: []int64{3}}}})
	require.NoError(t, err)
	all, tokens := m.Task().CountTokens(b)
	assert.Equal(t, [2]int64{4, 4}, [2]int64{all, tokens})
	for lengths, want := range map[[2]int64]string{{2, 2}: "Lengths add up to 4, and there are 3 tokens",
		{3, 0}: "Lengths[1] is 0"} {
		joined.Lengths = lengths[:]
		_, err = m.Task().Collate([]causallm.Sample{joined})
		require.ErrorContains(t, err, want)
	}
	short, err := m.SFTTask(sft.TaskOptions{MaxLength: 2})
	require.NoError(t, err)
	joined.Lengths = []int64{3}
	_, err = short.Collate([]causallm.Sample{joined})
	require.ErrorContains(t, err, "it joins texts to 3 tokens, and TaskOptions.MaxLength is 2")
	_, err = engine.New(m.Task(), engine.Options{Optimizer: optim.AdamW{LR: 1e-3}, NEFTuneAlpha: 5})
	require.ErrorContains(t, err, "causallm: Options.NEFTuneAlpha is 5")
	preferences, err := m.DPOTask(dpo.TaskOptions{})
	require.NoError(t, err)
	_, err = engine.New(preferences, engine.Options{Optimizer: optim.AdamW{LR: 1e-3}, NEFTuneAlpha: 5})
	require.ErrorContains(t, err, "dpo: Options.NEFTuneAlpha is 5")
	require.ErrorContains(t, (&grpo.Task{}).ValidateOptions(engine.Options{NEFTuneAlpha: 1}), "grpo: Options.NEFTuneAlpha")

	dir := t.TempDir()
	config := `{"model_type": "mixtral", "num_local_experts": 4, "output_router_logits": true, ` + decoderSizes + `}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o666))
	experts, err := auto.CausalLM(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard})
	require.NoError(t, err)
	require.ErrorContains(t, experts.SetPaddingFree(true), "output_router_logits is true")
}
