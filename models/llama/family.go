package llama

import (
	"maps"
	"slices"
)

// family describes how the models of a type differ from Llama. The zero value of each field means:
// as in Llama.
type family struct {
	class    string // prefix of transformers' class names
	causal   string // prefix of the class of the language model; empty: class
	defaults Config // defaults of the settings

	settings []string // keys of [Config.optional] that this type has in its config.json
	actKey   string   // key of HiddenAct; empty means hidden_act
	tied     bool     // TieWordEmbeddings is always true

	qkvBias     bool // queries, keys and values have a bias regardless of AttentionBias
	headNorms   bool // queries and keys are normalised per head: q_norm and k_norm
	wideNorms   bool // queries and keys are normalised over all heads together
	fused       bool // queries, keys and values are one matrix product, and so are the gate and up projections
	partialRope bool // only partial_rotary_factor of a head is rotated; longrope replaces the other rope_types

	// With sandwich, the outputs of attention and of the feed-forward part are normalised as well
	// as their inputs; with postNorms, only the outputs.
	sandwich, postNorms bool
	// Norms multiply by 1 + weight, and embeddings are multiplied by the square root of HiddenSize.
	onePlusNorms bool
	// Norms multiply by their weight in float32, and rotary embeddings are applied in float32; only
	// the result is converted to the dtype of the input.
	castLast bool

	moe *mixture // the feed-forward parts are mixtures of experts; nil: they are not

	windows      *pattern // which layers have a sliding window if LayerTypes is not given; nil means all
	windowSwitch bool     // the sliding window is used only if use_sliding_window is true
	noWindow     string   // what config.json says without a window; empty: null
	twoRopes     bool     // layers with a sliding window have their own rotary embedding, LocalRope
	// config.json has use_bidirectional_attention, which halves the window, instead of is_causal.
	halvesWindow bool
}

// qwenExperts are settings of Qwen's mixtures of experts.
var qwenExperts = []string{"sliding_window", "num_experts", "num_experts_per_tok", "moe_intermediate_size",
	"norm_topk_prob", "decoder_sparse_step", "mlp_only_layers", "output_router_logits", "router_aux_loss_coef"}

var families = map[string]family{
	"llama": {
		class: "Llama", settings: []string{"attention_bias", "mlp_bias", "head_dim"},
		defaults: Config{VocabSize: 32000, HiddenSize: 4096, IntermediateSize: 11008, NumLayers: 32, NumHeads: 32,
			MaxPositions: 2048, EOSTokenIDs: []int64{2}},
	},
	"mistral": {
		class: "Mistral", settings: []string{"head_dim", "sliding_window"},
		defaults: Config{VocabSize: 32000, HiddenSize: 4096, IntermediateSize: 14336, NumLayers: 32, NumHeads: 32,
			NumKeyValueHeads: 8, MaxPositions: 131072, EOSTokenIDs: []int64{2}, SlidingWindow: 4096},
	},
	"qwen2": {
		class: "Qwen2", settings: []string{"sliding_window", "layer_types"}, qkvBias: true,
		windowSwitch: true, windows: qwenWindows,
		defaults: Config{VocabSize: 151936, HiddenSize: 4096, IntermediateSize: 22016, NumLayers: 32, NumHeads: 32,
			MaxPositions: 32768},
	},
	"qwen3": {
		class: "Qwen3", settings: []string{"attention_bias", "head_dim", "sliding_window", "layer_types"}, headNorms: true,
		windowSwitch: true, windows: qwenWindows,
		defaults: Config{VocabSize: 151936, HiddenSize: 4096, IntermediateSize: 22016, NumLayers: 32, NumHeads: 32,
			NumKeyValueHeads: 32, HeadDim: 128, MaxPositions: 32768},
	},
	"phi3": { // transformers ignores embd_pdrop
		class: "Phi3", settings: []string{"resid_pdrop", "sliding_window"}, fused: true, partialRope: true,
		defaults: Config{VocabSize: 32064, HiddenSize: 3072, IntermediateSize: 8192, NumLayers: 32, NumHeads: 32,
			MaxPositions: 4096, RMSNormEps: 1e-5, EOSTokenIDs: []int64{32000}, PadTokenID: new(int64(32000))},
	},
	"gemma": {
		class: "Gemma", settings: []string{"attention_bias", "head_dim"}, onePlusNorms: true, tied: true,
		defaults: Config{VocabSize: 256000, HiddenSize: 3072, IntermediateSize: 24576, NumLayers: 28, NumHeads: 16,
			HeadDim: 256, MaxPositions: 8192, HiddenAct: "gelu_pytorch_tanh", EOSTokenIDs: []int64{1},
			PadTokenID: new(int64(0))},
	},
	"gemma2": {
		class: "Gemma2", settings: []string{"attention_bias", "head_dim", "sliding_window", "layer_types",
			"query_pre_attn_scalar", "attn_logit_softcapping", "final_logit_softcapping"},
		actKey: "hidden_activation", onePlusNorms: true, tied: true, sandwich: true, windows: butEach(2, ""),
		defaults: Config{VocabSize: 256000, HiddenSize: 2304, IntermediateSize: 9216, NumLayers: 26, NumHeads: 8,
			NumKeyValueHeads: 4, HeadDim: 256, MaxPositions: 8192, HiddenAct: "gelu_pytorch_tanh", EOSTokenIDs: []int64{1},
			PadTokenID: new(int64(0)), SlidingWindow: 4096, QueryPreAttnScalar: 256, AttnLogitSoftcapping: 50,
			FinalLogitSoftcapping: 30},
	},
	"gemma3_text": {
		class: "Gemma3Text", causal: "Gemma3",
		settings: []string{"attention_bias", "head_dim", "sliding_window", "layer_types",
			"query_pre_attn_scalar", "final_logit_softcapping"},
		actKey: "hidden_activation", onePlusNorms: true, tied: true, sandwich: true, headNorms: true, twoRopes: true,
		windows: butEach(6, "sliding_window_pattern"), halvesWindow: true,
		defaults: Config{VocabSize: 262208, HiddenSize: 2304, IntermediateSize: 9216, NumLayers: 26, NumHeads: 8,
			NumKeyValueHeads: 4, HeadDim: 256, MaxPositions: 131072, HiddenAct: "gelu_pytorch_tanh", EOSTokenIDs: []int64{1},
			PadTokenID: new(int64(0)), SlidingWindow: 4096, QueryPreAttnScalar: 256, Rope: Rope{Theta: 1e6}},
	},
	"smollm3": {
		class: "SmolLM3", settings: []string{"attention_bias", "mlp_bias", "layer_types", "no_rope_layers"},
		defaults: Config{VocabSize: 128256, HiddenSize: 2048, IntermediateSize: 11008, NumLayers: 36, NumHeads: 16,
			NumKeyValueHeads: 4, MaxPositions: 32768, Rope: Rope{Theta: 2e6}, TieWordEmbeddings: true,
			EOSTokenIDs: []int64{128001}, PadTokenID: new(int64(128004))},
	},
	"olmo2": {
		class: "Olmo2", settings: []string{"attention_bias"}, wideNorms: true, postNorms: true, castLast: true,
		defaults: Config{VocabSize: 50304, HiddenSize: 4096, IntermediateSize: 11008, NumLayers: 32, NumHeads: 32,
			MaxPositions: 2048, RMSNormEps: 1e-5, EOSTokenIDs: []int64{50279}, PadTokenID: new(int64(1))},
	},
	"granite": {
		class: "Granite", settings: []string{"attention_bias", "mlp_bias", "embedding_multiplier", "attention_multiplier",
			"residual_multiplier", "logits_scaling"},
		defaults: Config{VocabSize: 32000, HiddenSize: 4096, IntermediateSize: 11008, NumLayers: 32, NumHeads: 32,
			MaxPositions: 2048, EOSTokenIDs: []int64{2}, EmbeddingMultiplier: 1, AttentionMultiplier: 1,
			ResidualMultiplier: 1, LogitsScaling: 1},
	},
	"mixtral": {
		class: "Mixtral", settings: []string{"head_dim", "sliding_window", "num_experts", "num_experts_per_tok",
			"output_router_logits", "router_aux_loss_coef", "router_jitter_noise"},
		moe: &mixture{countKey: "num_local_experts", otherKey: "num_experts", block: "block_sparse_moe",
			gate: "w1", up: "w3", down: "w2", normalized: true},
		defaults: Config{VocabSize: 32000, HiddenSize: 4096, IntermediateSize: 14336, NumLayers: 32, NumHeads: 32,
			NumKeyValueHeads: 8, MaxPositions: 131072, RMSNormEps: 1e-5, EOSTokenIDs: []int64{2}, Rope: Rope{Theta: 1e6},
			Experts: Experts{Number: 8, PerToken: 2}},
	},
	"qwen2_moe": {
		class:    "Qwen2Moe",
		settings: append([]string{"qkv_bias", "layer_types", "shared_expert_intermediate_size"}, qwenExperts...),
		qkvBias:  true, windowSwitch: true, windows: qwenMoEWindows, noWindow: "0",
		moe: &mixture{countKey: "num_experts", otherKey: "num_local_experts", gate: "gate_proj", up: "up_proj",
			down: "down_proj", shared: true},
		defaults: Config{VocabSize: 151936, HiddenSize: 2048, IntermediateSize: 5632, NumLayers: 24, NumHeads: 16,
			NumKeyValueHeads: 16, MaxPositions: 32768,
			Experts: Experts{Number: 60, PerToken: 4, IntermediateSize: 1408, SharedIntermediateSize: 5632}},
	},
	"qwen3_moe": {
		class: "Qwen3Moe", settings: append([]string{"attention_bias", "head_dim"}, qwenExperts...),
		headNorms: true, windowSwitch: true,
		moe: &mixture{countKey: "num_local_experts", otherKey: "num_experts", gate: "gate_proj", up: "up_proj",
			down: "down_proj", gateLast: true},
		defaults: Config{VocabSize: 151936, HiddenSize: 2048, IntermediateSize: 6144, NumLayers: 24, NumHeads: 32,
			NumKeyValueHeads: 4, MaxPositions: 32768,
			Experts: Experts{Number: 128, PerToken: 8, IntermediateSize: 768}},
	},
}

// pattern defines which layers have a sliding window.
type pattern struct {
	key    string // key in older config.json files, which may override number
	number int64
	has    func(layer, number int64) bool
}

// qwenWindows is the pattern of Qwen2Config and Qwen3Config.
var qwenWindows = &pattern{"max_window_layers", 28, func(layer, first int64) bool { return layer >= first }}

// qwenMoEWindows is the pattern of Qwen2MoeConfig.
var qwenMoEWindows = &pattern{"max_window_layers", 28,
	func(layer, n int64) bool { return layer < n && layer%2 == 0 }}

// butEach gives every layer a window except each n-th one.
func butEach(n int64, key string) *pattern {
	return &pattern{key, n, func(layer, n int64) bool { return (layer+1)%n != 0 }}
}

// types returns the supported values of model_type.
func types() []string { return slices.Sorted(maps.Keys(families)) }

// typesWith returns the types that have a setting.
func typesWith(setting string) (with []string) {
	for _, name := range types() {
		if slices.Contains(families[name].settings, setting) {
			with = append(with, name)
		}
	}
	return with
}
