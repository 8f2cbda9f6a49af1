// Package gpt2 is GPT-2: GPT2LMHeadModel of transformers 5.17, tensor by tensor and bit by bit.
// Package auto takes its blueprint, adds the head, trains and generates:
//
//	lm, err := auto.CausalLM(ctx, "openai-community/gpt2", auto.Options{})                  // of files
//	lm, err := auto.NewCausalLM(gpt2.Config{NumLayers: 4, HiddenSize: 128}, tokenizer)      // of random weights
//
// The output layer shares the weight of the token embedding. Cross-attention, and the attention
// scalings that some variants of GPT-2 use (scale_attn_by_inverse_layer_idx,
// reorder_and_upcast_attn), are refused by name.
package gpt2
