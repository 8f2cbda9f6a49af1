// Package t5 is an encoder and a decoder that attends to what the encoder made of a text:
// T5ForConditionalGeneration of transformers 5.17, tensor by tensor and bit by bit. T5 in its two
// versions (relu, and gated-gelu as T5 1.1 and Flan-T5 have it) has that type. The blueprint is for
// package auto, which puts the output layer on it, trains and generates:
//
//	m, err := auto.Seq2SeqLM(ctx, "google-t5/t5-small", auto.Options{})                         // of files
//	m, err := auto.NewSeq2SeqLM(t5.Config{NumLayers: 2, HiddenSize: 128, NumHeads: 4}, tokenizer) // of random weights
//
// Weights of files are read as float32; mixed precision is the trainer's, bf16 or fp16 without the
// clamping that transformers does in fp16.
package t5
