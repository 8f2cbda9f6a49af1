// Package hezar reads the text pre-processors of Hezar's models: the folder preprocessor/ with
// tokenizer.json, tokenizer_config.yaml and normalizer_config.yaml.
//
//	tok, err := hezar.LoadTokenizer(dir)
//	t, err := tok.Configured(hezar.CallOptions{Padding: "longest", Truncation: "longest_first", MaxLength: 128})
//	e, err := t.Encode("سلام دنیا", nil)
//
// Hezar's WordPiece, byte-level BPE and SentencePiece tokenizers are Hugging Face tokenizers, read
// by package text. Hezar adds settings for a call: the side, length and token of truncation and
// padding.
package hezar
