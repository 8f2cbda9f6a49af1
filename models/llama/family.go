package llama

import (
	"maps"
	"slices"
)

// family is what the models of a type do not share with Llama. What it says is all that they differ
// in: the zero value of each field is Llama's.
type family struct {
	class    string // what the names of transformers' classes begin with
	causal   string // that of the class of the language model; empty: class
	defaults Config // what the zero value of a setting means

	settings []string // of config.json that not all types have: the keys of [Config.optional]
	actKey   string   // that of HiddenAct; empty: hidden_act
	tied     bool     // TieWordEmbeddings, always

	qkvBias     bool // queries, keys and values have a bias whatever AttentionBias says
	headNorms   bool // queries and keys are normalised, head by head: q_norm and k_norm
	wideNorms   bool // they are, all heads together
	fused       bool // queries, keys and values are one matrix product, and so are gate and what goes up
	partialRope bool // partial_rotary_factor of a head is turned, and longrope takes the place of other rope_types

	// sandwich normalises what attention and the feed-forward part return as well as what they are given;
	// behind normalises only the former.
	sandwich, behind bool
	// ones says that normalisations multiply by 1 + their weight, and embeddings are multiplied by the
	// root of HiddenSize.
	ones bool
	// castLast says that normalisations multiply by their weight, and positions turn, in float32, and only
	// the result has the type of the input.
	castLast bool

	windows      *pattern // which layers have the sliding window where LayerTypes does not say; nil: all
	windowSwitch bool     // there is a window only if use_sliding_window says so
	twoRopes     bool     // layers with a window turn positions in a way of their own, LocalRope
}

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
		windowSwitch: true, windows: last28,
		defaults: Config{VocabSize: 151936, HiddenSize: 4096, IntermediateSize: 22016, NumLayers: 32, NumHeads: 32,
			MaxPositions: 32768},
	},
	"qwen3": {
		class: "Qwen3", settings: []string{"attention_bias", "head_dim", "sliding_window", "layer_types"}, headNorms: true,
		windowSwitch: true, windows: last28,
		defaults: Config{VocabSize: 151936, HiddenSize: 4096, IntermediateSize: 22016, NumLayers: 32, NumHeads: 32,
			NumKeyValueHeads: 32, HeadDim: 128, MaxPositions: 32768},
	},
	"phi3": { // transformers does not use embd_pdrop
		class: "Phi3", settings: []string{"resid_pdrop", "sliding_window"}, fused: true, partialRope: true,
		defaults: Config{VocabSize: 32064, HiddenSize: 3072, IntermediateSize: 8192, NumLayers: 32, NumHeads: 32,
			MaxPositions: 4096, RMSNormEps: 1e-5, EOSTokenIDs: []int64{32000}, PadTokenID: new(int64(32000))},
	},
	"gemma": {
		class: "Gemma", settings: []string{"attention_bias", "head_dim"}, ones: true, tied: true,
		defaults: Config{VocabSize: 256000, HiddenSize: 3072, IntermediateSize: 24576, NumLayers: 28, NumHeads: 16,
			HeadDim: 256, MaxPositions: 8192, HiddenAct: "gelu_pytorch_tanh", EOSTokenIDs: []int64{1},
			PadTokenID: new(int64(0))},
	},
	"gemma2": {
		class: "Gemma2", settings: []string{"attention_bias", "head_dim", "sliding_window", "layer_types",
			"query_pre_attn_scalar", "attn_logit_softcapping", "final_logit_softcapping"},
		actKey: "hidden_activation", ones: true, tied: true, sandwich: true, windows: butEach(2, ""),
		defaults: Config{VocabSize: 256000, HiddenSize: 2304, IntermediateSize: 9216, NumLayers: 26, NumHeads: 8,
			NumKeyValueHeads: 4, HeadDim: 256, MaxPositions: 8192, HiddenAct: "gelu_pytorch_tanh", EOSTokenIDs: []int64{1},
			PadTokenID: new(int64(0)), SlidingWindow: 4096, QueryPreAttnScalar: 256, AttnLogitSoftcapping: 50,
			FinalLogitSoftcapping: 30},
	},
	"gemma3_text": {
		class: "Gemma3Text", causal: "Gemma3",
		settings: []string{"attention_bias", "head_dim", "sliding_window", "layer_types",
			"query_pre_attn_scalar", "final_logit_softcapping"},
		actKey: "hidden_activation", ones: true, tied: true, sandwich: true, headNorms: true, twoRopes: true,
		windows: butEach(6, "sliding_window_pattern"),
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
		class: "Olmo2", settings: []string{"attention_bias"}, wideNorms: true, behind: true, castLast: true,
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
}

// pattern says which layers have the sliding window.
type pattern struct {
	key    string // of older files, which may give another number
	number int64
	has    func(layer, number int64) bool
}

// last28 is that of Qwen2Config and Qwen3Config.
var last28 = &pattern{"max_window_layers", 28, func(layer, first int64) bool { return layer >= first }}

// butEach gives each layer a window but the n-th, the 2n-th and so on.
func butEach(n int64, key string) *pattern {
	return &pattern{key, n, func(layer, n int64) bool { return (layer+1)%n != 0 }}
}

// types are the values of model_type that there are.
func types() []string { return slices.Sorted(maps.Keys(families)) }

// typesWith are those that have a setting.
func typesWith(setting string) (with []string) {
	for _, name := range types() {
		if slices.Contains(families[name].settings, setting) {
			with = append(with, name)
		}
	}
	return with
}
