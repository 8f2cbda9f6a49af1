// Package t5 is an encoder, and a decoder that attends to the encoder's output:
// T5ForConditionalGeneration of transformers 5.17, tensor by tensor and bit by bit. Both versions
// of T5 have that type: relu, and gated-gelu as in T5 1.1 and Flan-T5. mT5 is T5 1.1 with other
// defaults (MT5ForConditionalGeneration). Package auto takes the
// blueprint, adds the output layer, trains and generates:
//
//	m, err := auto.Seq2SeqLM(ctx, "google-t5/t5-small", auto.Options{})                         // of files
//	m, err := auto.NewSeq2SeqLM(t5.Config{NumLayers: 2, HiddenSize: 128, NumHeads: 4}, tokenizer) // of random weights
//
// Weights are read from files as float32. The trainer provides mixed precision: bf16, or fp16
// without the clamping that transformers does in fp16.
package t5
