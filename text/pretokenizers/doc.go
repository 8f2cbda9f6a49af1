// Package pretokenizers has the pre-tokenizers of Hugging Face tokenizers: what splits a normalized
// text into words, each of which a model then splits into tokens.
//
//	words := pretokenizers.BertPreTokenizer{}.PreTokenize(normalizers.NewString("Hello, world"))
//	// Hello | , | world
//
// [Parse] reads the field "pre_tokenizer" of tokenizer.json; the types write themselves back with
// encoding/json.
package pretokenizers
