// Package llama is the decoder of Llama, Mistral, Qwen2 and Gemma: LlamaForCausalLM,
// MistralForCausalLM, Qwen2ForCausalLM and GemmaForCausalLM of transformers 5.17, tensor by tensor
// and bit by bit. Many models have their type: TinyLlama, SmolLM and SmolLM2 are llama, Qwen2.5 is
// qwen2; Gemma 2 and 3 are types of their own and not here. The blueprint is for package auto, which
// puts the head on it, trains and generates:
//
//	lm, err := auto.CausalLM(ctx, "HuggingFaceTB/SmolLM2-135M", auto.Options{})                   // of files
//	lm, err := auto.NewCausalLM(llama.Config{NumLayers: 4, HiddenSize: 128, NumHeads: 4}, tokenizer) // of random weights
//
// Weights of files are read as float32; mixed precision is the trainer's. Sliding windows are not
// there: a text of Mistral's may be as long as its window, where the window makes no difference.
// Positions are turned as they are, or scaled as linear or llama3 say (rope_type); others are
// refused by name.
package llama
