// Package llava has LLaVA (Liu et al., 2023), a language model whose texts have images: transformers'
// LlavaForConditionalGeneration of a CLIP vision tower, a projector of two layers, and any decoder of
// package llama that is no Gemma, Granite or mixture of experts, tensor by tensor and bit by bit.
package llava
