// Package whisper has Whisper (Radford et al., 2022), which writes down speech: transformers'
// WhisperForConditionalGeneration, tensor by tensor and bit by bit. Package auto loads, trains and
// saves it:
//
//	m, err := auto.SpeechToText(ctx, "openai/whisper-small", auto.Options{})           // of files
//	m, err := auto.NewSpeechToText(whisper.Config{...}, extractor, tokenizer)          // of random weights
//
// Its task is in package seq2seq. Weights have the names that they have in files.
package whisper
