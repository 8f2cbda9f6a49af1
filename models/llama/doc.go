// Package llama is the decoder of Llama and of the models derived from it, tensor by tensor and bit
// by bit as in transformers 5.17: LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM,
// Qwen3ForCausalLM, Phi3ForCausalLM, GemmaForCausalLM, Gemma2ForCausalLM, Gemma3ForCausalLM,
// SmolLM3ForCausalLM, Olmo2ForCausalLM, GraniteForCausalLM, MixtralForCausalLM,
// Qwen2MoeForCausalLM and Qwen3MoeForCausalLM. Their differences are in family.go.
// Many other models use these types: TinyLlama, SmolLM and SmolLM2 are llama, Qwen2.5 is qwen2,
// Phi-4 and Phi-4-mini are phi3. Package auto takes the blueprint, adds the head, trains and
// generates:
//
//	lm, err := auto.CausalLM(ctx, "HuggingFaceTB/SmolLM2-135M", auto.Options{})                   // of files
//	lm, err := auto.NewCausalLM(llama.Config{NumLayers: 4, HiddenSize: 128, NumHeads: 4}, tokenizer) // of random weights
//
// Rotary positions are used as they are, or scaled as the rope_type linear, llama3 or (phi3 only)
// longrope says; others are refused by name.
//
// # Mixtures of experts
//
// In Mixtral, Qwen2-MoE and Qwen3-MoE, a router sends each token to a few of many feed-forward
// parts, whose weights are in one tensor: see [Experts], [SparseMoeBlock] and [ExpertMLPs]. In
// files, each expert has matrices of its own. Padding passes through experts, too, so the id of the
// padding token makes a difference in last bits.
//
// # Sliding windows
//
// In a layer with a window, a token attends to that many tokens, including itself; a text may be
// longer than the window. Texts shorter than it need no mask. A [transformer.Past] keeps all
// tokens, also those outside of every window.
package llama
