// Package llama is the decoder of Llama and of those that were made after it, tensor by tensor and bit
// by bit as in transformers 5.17: LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM,
// Qwen3ForCausalLM, Phi3ForCausalLM, GemmaForCausalLM, Gemma2ForCausalLM, Gemma3ForCausalLM,
// SmolLM3ForCausalLM, Olmo2ForCausalLM and GraniteForCausalLM. What each differs in is in family.go.
// Many models have their types: TinyLlama, SmolLM and SmolLM2 are llama, Qwen2.5 is qwen2, Phi-4 and
// Phi-4-mini are phi3. The blueprint is for package auto, which puts the head on it, trains and
// generates:
//
//	lm, err := auto.CausalLM(ctx, "HuggingFaceTB/SmolLM2-135M", auto.Options{})                   // of files
//	lm, err := auto.NewCausalLM(llama.Config{NumLayers: 4, HiddenSize: 128, NumHeads: 4}, tokenizer) // of random weights
//
// Positions are turned as they are, or as linear, llama3 or, of phi3, longrope say (rope_type); others
// are refused by name.
//
// # Sliding windows
//
// Where a layer has a window a token attends to that many, itself among them, and a text may be
// longer. Texts that are shorter take the road without a mask. A [transformer.Past] keeps all tokens,
// also those that no window has room for.
package llama
