package moetest_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/dpo"
	"github.com/gotrainer/gotrainer/models/grpo"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/kto"
	"github.com/gotrainer/gotrainer/models/llama"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// small describes a model for tests without recorded numbers. All of its layers have experts.
func small(balanced bool) llama.Config {
	return llama.Config{Type: "qwen3_moe", VocabSize: 300, HiddenSize: 16, NumLayers: 2, NumHeads: 2, NumKeyValueHeads: 1,
		MaxPositions: 40, EOSTokenIDs: []int64{1}, PadTokenID: new(int64(0)),
		Experts: llama.Experts{Number: 4, PerToken: 2, IntermediateSize: 8, OutputRouterLogits: balanced}}
}

func newSmall(t *testing.T, balanced bool) *auto.CausalLanguageModel {
	t.Helper()
	testenv.RequireTorch(t)
	torch.ManualSeed(1)
	tok, err := text.TrainByteLevel(strings.SplitSeq("one two three four", " "), text.TrainOptions{VocabSize: 270})
	require.NoError(t, err)
	m, err := auto.NewCausalLM(small(balanced), tok)
	require.NoError(t, err)
	return m
}

// fit trains two updates, and checks that the experts learn. It returns the folder of the run.
func fit[S, B any](t *testing.T, m *auto.CausalLanguageModel, task engine.Task[S, B], o trainer.Options,
	samples ...S) string {
	t.Helper()
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 1e-2}})
	require.NoError(t, err)
	o.OutputDir, o.MaxSteps, o.BatchSize, o.Progress = t.TempDir(), 2, len(samples), io.Discard
	run, err := trainer.New(step, o)
	require.NoError(t, err)
	before := map[string]string{}
	for _, p := range nn.Params(m) {
		before[p.Name] = modeltest.Sum(p.Tensor.Bytes())
	}
	_, err = run.Fit(t.Context(), data.Slice[S](samples), nil)
	require.NoError(t, err)
	for _, p := range nn.Params(m) {
		if p.Tensor.NeedsGrad() {
			assert.NotEqual(t, before[p.Name], modeltest.Sum(p.Tensor.Bytes()), "%s was not trained", p.Name)
		}
	}
	return o.OutputDir
}

func TestCheckpointsHoldEachExpert(t *testing.T) {
	m := newSmall(t, true)
	sample, err := m.Encode("one two three four")
	require.NoError(t, err)
	dir := fit(t, m, m.Task(), trainer.Options{Save: trainer.Every(2, trainer.Update)}, sample)
	f, err := safetensors.Open(filepath.Join(dir, "checkpoint-2", "model.safetensors"))
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // it was only read
	expert, found := f.Tensor("model.layers.1.mlp.experts.3.down_proj.weight")
	require.True(t, found)
	assert.Equal(t, []int64{16, 8}, expert.Shape)
	_, found = f.Tensor("model.layers.1.mlp.experts.down_proj")
	assert.False(t, found)

	again, err := auto.CausalLM(t.Context(), filepath.Join(dir, "checkpoint-2"), auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	want := map[string]string{}
	for _, p := range nn.Params(m) {
		want[p.Name] = modeltest.Sum(p.Tensor.Bytes())
	}
	modeltest.SameWeights(t, again, want)
}

// TestOtherTasksTrainExperts trains as TRL's DPOTrainer, KTOTrainer and GRPOTrainer do. They refuse a
// model that has a loss of its own.
func TestOtherTasksTrainExperts(t *testing.T) {
	for name, train := range map[string]func(m *auto.CausalLanguageModel) error{
		"dpo": func(m *auto.CausalLanguageModel) error {
			task, err := m.DPOTask(dpo.TaskOptions{})
			if err == nil {
				fit(t, m, task, trainer.Options{}, dpo.Sample{PromptIDs: []int64{3, 4, 5}, ChosenIDs: []int64{6, 7, 1},
					RejectedIDs: []int64{8, 1}})
			}
			return err
		},
		"kto": func(m *auto.CausalLanguageModel) error {
			task, err := m.KTOTask(kto.TaskOptions{})
			if err == nil {
				fit(t, m, task, trainer.Options{},
					kto.Sample{PromptIDs: []int64{3, 4, 5}, CompletionIDs: []int64{6, 7, 1}, Label: true},
					kto.Sample{PromptIDs: []int64{3, 4}, CompletionIDs: []int64{8, 1}})
			}
			return err
		},
		"grpo": func(m *auto.CausalLanguageModel) error {
			length := func(c grpo.Completions) (rewards []float64, err error) {
				for i := range c.Texts {
					rewards = append(rewards, float64(i%3))
				}
				return rewards, nil
			}
			task, err := m.GRPOTask(grpo.TaskOptions{Rewards: []grpo.Reward{{Name: "length", Func: length}},
				NumGenerations: 4, MaxCompletionLength: 6})
			if err == nil {
				fit(t, m, task, trainer.Options{Order: task.Order(1, 1)},
					grpo.Sample{PromptIDs: []int64{3, 4, 5}, Prompt: "abc"})
			}
			return err
		},
	} {
		require.NoError(t, train(newSmall(t, false)), name)
		require.ErrorContains(t, train(newSmall(t, true)), name+": output_router_logits is true", name)
	}
}

// TestAdaptersLeaveExpertsAlone trains an adapter on attention. Updates of experts are refused.
func TestAdaptersLeaveExpertsAlone(t *testing.T) {
	m := newSmall(t, true)
	require.NoError(t, m.AddLoRA(lora.Config{}))
	m.SetGradientCheckpointing(true)
	sample, err := m.Encode("one two three four")
	require.NoError(t, err)
	dir := fit(t, m, m.Task(), trainer.Options{Save: trainer.Every(2, trainer.Update)}, sample)
	f, err := safetensors.Open(filepath.Join(dir, "checkpoint-2", "adapter_model.safetensors"))
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // it was only read
	assert.Len(t, f.Tensors(), 2*2*2, "two matrices for two projections in each of two layers")

	for _, name := range []string{lora.AllLinear, "gate_proj", "model.layers.0.mlp.experts.up_proj", "w1", "gate"} {
		err := newSmall(t, false).AddLoRA(lora.Config{TargetModules: []string{"q_proj", name}})
		require.ErrorContains(t, err, "an update of the experts")
	}
	require.ErrorContains(t, newSmall(t, false).AddLoRA(lora.Config{TargetPattern: ".*q_proj"}), "TargetPattern")
}

// TestMissingExpertsAreDrawn checks that an expert that files lack is an error, unless it is asked
// for: then all experts of the layer are drawn.
func TestMissingExpertsAreDrawn(t *testing.T) {
	m, dir := newSmall(t, false), t.TempDir()
	require.NoError(t, m.Save(dir))
	var tensors []torch.Named
	for _, s := range nn.FileState(m) {
		if s.Name != "model.layers.1.mlp.experts.2.down_proj.weight" {
			tensors = append(tensors, s)
		}
	}
	require.NoError(t, nn.SaveTensors(filepath.Join(dir, "model.safetensors"), tensors, map[string]string{"format": "pt"}))
	_, err := auto.CausalLM(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.ErrorContains(t, err, "no tensor model.layers.1.mlp.experts.2.down_proj.weight")
	again, err := auto.CausalLM(t.Context(), dir, auto.Options{Warnings: io.Discard, InitMissing: true})
	require.NoError(t, err)
	assert.Equal(t, []string{"model.layers.1.mlp.experts.down_proj"}, again.Report.Initialized)
}

// TestABatchWithItsOwnLossIsNotDivided checks that the load-balancing loss is that of whole batches.
func TestABatchWithItsOwnLossIsNotDivided(t *testing.T) {
	m := newSmall(t, true)
	sample, err := m.Encode("one two three four")
	require.NoError(t, err)
	task := m.Task()
	b, err := task.Collate([]causallm.Sample{sample})
	require.NoError(t, err)
	require.NoError(t, torch.Try(func() { task.Loss(engine.ForwardPass{}, b) }))
	require.ErrorContains(t, torch.Try(func() { task.Loss(engine.ForwardPass{Part: true}, b) }),
		"leave DivideOnOutOfMemory out")
}

func jsonOf(t *testing.T, text string) (d map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &d))
	return d
}

// TestExpertsOfAnySizeAreComputed compares sizes and dtypes for which the experts are multiplied one
// by one with the operator for all of them.
func TestExpertsOfAnySizeAreComputed(t *testing.T) {
	m := newSmall(t, false)
	ids := torch.From([]int64{3, 14, 15, 9, 2, 6}, 2, 3)
	logits := func() torch.Tensor { return m.Forward(ids, torch.Tensor{}, torch.Tensor{}).ToDType(torch.Float64) }
	want := logits()
	nn.To(m, torch.TensorOptions{DType: torch.Float64})
	assert.Less(t, logits().Sub(want).Abs().Max().Item(), 1e-6)

	c := small(true)
	c.HiddenSize, c.HeadDim, c.Experts.IntermediateSize = 18, 8, 5
	odd, err := auto.NewCausalLM(c, nil)
	require.NoError(t, err)
	task := odd.Task()
	b, err := task.Collate([]causallm.Sample{{Text: inputs.Text{InputIDs: []int64{3, 14, 15, 9}}}})
	require.NoError(t, err)
	task.Loss(engine.ForwardPass{}, b).Value.Backward()
	for _, p := range nn.Params(odd) {
		assert.True(t, p.Tensor.Grad().Defined(), p.Name)
	}
}

// TestLayersAreUnits shards the layers, and their experts with them.
func TestLayersAreUnits(t *testing.T) {
	modeltest.LayersAreUnits(t, 2, func() (inputs.Model, error) { return auto.NewCausalLM(small(false), nil) })
}

// TestSettingsThatAreNotSupportedAreRefused checks settings that a model cannot have.
func TestSettingsThatAreNotSupportedAreRefused(t *testing.T) {
	testenv.RequireTorch(t)
	read := func(dir string) error {
		_, err := auto.CausalLM(t.Context(), dir, auto.Options{FromConfig: true})
		return err
	}
	modeltest.Refuses(t, "mixtral", map[string]string{
		`"num_local_experts": 0`:                "num_local_experts is 0; want a positive number",
		`"num_experts": 5000`:                   "Experts.Number is 5000; want at most 4096",
		`"num_experts_per_tok": 9`:              "Experts.PerToken is 9; want at most the number of experts, 8",
		`"router_jitter_noise": 1`:              "Experts.RouterJitterNoise is 1; want 0 to less than 1",
		`"num_local_experts": "many"`:           "num_local_experts",
		`"rope_parameters": {"rope_type": "x"}`: `rope_type is "x"`,
	}, read)
	modeltest.Refuses(t, "qwen3_moe", map[string]string{
		`"moe_intermediate_size": -1`: "Experts.IntermediateSize is -1",
		`"decoder_sparse_step": 0`:    "decoder_sparse_step is 0; want a positive number",
		`"decoder_sparse_step": -1`:   "Experts.SparseStep is -1",
	}, read)
	modeltest.Refuses(t, "qwen2_moe", map[string]string{
		`"shared_expert_intermediate_size": -1`: "Experts.SharedIntermediateSize is -1",
		`"qkv_bias": "no"`:                      "qkv_bias",
	}, read)
	for want, c := range map[string]llama.Config{
		"; the model is llama":     {Experts: llama.Experts{Number: 4}},
		"norm_topk_prob is for":    {Type: "mixtral", Experts: llama.Experts{NormTopKProb: true}},
		"qkv_bias is for [\"qwen2": {Type: "qwen3_moe", NoQKVBias: true},
	} {
		_, err := auto.NewCausalLM(c, nil)
		require.ErrorContains(t, err, want)
	}
}

// TestSettingsHaveTransformersDefaults reads files that say nothing but the type.
func TestSettingsHaveTransformersDefaults(t *testing.T) {
	for kind, want := range map[string]string{
		"mixtral": `"num_local_experts": 8, "num_experts_per_tok": 2, "router_jitter_noise": 0, "rms_norm_eps": 1e-05`,
		"qwen2_moe": `"num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408,
			"shared_expert_intermediate_size": 5632, "qkv_bias": true, "decoder_sparse_step": 1, "sliding_window": 0`,
		"qwen3_moe": `"num_local_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
			"norm_topk_prob": false, "decoder_sparse_step": 1, "mlp_only_layers": [], "sliding_window": null`,
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"),
			[]byte(`{"model_type": "`+kind+`", "mlp_only_layers": null}`), 0o600))
		c, err := llama.ReadConfig(dir)
		require.NoError(t, err)
		b, err := c.Blueprint()
		require.NoError(t, err)
		d, err := b.Document(b.LanguageModel)
		require.NoError(t, err)
		for key, value := range jsonOf(t, `{"router_aux_loss_coef": 0.001, "output_router_logits": false, `+want+`}`) {
			assert.Equal(t, value, jsonOf(t, `{"x": `+string(d[key])+`}`)["x"], "%s of %s", key, kind)
		}
	}
}
