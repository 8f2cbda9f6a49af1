// Package decoders has the decoders of Hugging Face tokenizers: what turns tokens back into text.
//
//	text := decoders.Decode(decoders.DefaultWordPiece(), []string{"token", "##izer", "."}) // tokenizer.
//
// [Parse] reads the field "decoder" of tokenizer.json; the types write themselves back with
// encoding/json.
package decoders
