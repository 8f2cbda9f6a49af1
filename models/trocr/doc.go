// Package trocr has TrOCR (Li et al., 2021), which reads the text in an image: transformers'
// VisionEncoderDecoderModel of a ViT or DeiT, which sees the image, and TrOCRForCausalLM, which
// writes the text, tensor by tensor and bit by bit. Package auto loads, trains and saves it:
//
//	m, err := auto.ImageToText(ctx, "microsoft/trocr-small-printed", auto.Options{})  // of files
//	m, err := auto.NewImageToText(trocr.Config{...}, processor, tokenizer)            // of random weights
//
// Its task is in package seq2seq. Weights have the names that they have in files.
package trocr
