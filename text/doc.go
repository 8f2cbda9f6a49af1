// Package text turns text into what models learn and back: tokenizers that give, token for token,
// what Hugging Face's give.
//
//	tok, err := text.LoadTokenizer("bert-base-uncased") // the folder of a model: tokenizer.json, or vocab.txt
//	e, err := tok.EncodePair("How old are you?", "I am six.", nil)
//	fmt.Println(e.IDs, e.TypeIDs, e.Tokens)
//
// # How a text becomes tokens
//
// A [Tokenizer] is a pipeline of five parts, each in its own package and all of them named as in
// the library tokenizers, so that its documentation is true here: added tokens such as [MASK] are
// cut out; a normalizer cleans the rest (package normalizers); a pre-tokenizer cuts it into words
// (pretokenizers); a model cuts words into tokens of its vocabulary (models); a post-processor puts
// special tokens around them (processors). [Tokenizer.Decode] goes back, with a decoder (decoders).
// [New] puts parts together, [LoadTokenizer] reads them from tokenizer.json, [NewBert] and
// [NewByteLevel] make BERT's and GPT-2's of a vocabulary.
//
// # Encodings
//
// An [Encoding] has ids and types for the model, and for each token its text, its word and the
// stretch of the text it came from, in characters as Python counts them and in bytes as Go does.
// For ids only, [Tokenizer.AppendIDs] and [Tokenizer.IDsBatch] are faster. A Tokenizer does not
// change: [Tokenizer.WithTruncation] and [Tokenizer.WithPadding] return another one that shares its
// vocabulary.
//
// # Exactness
//
// The reference is tokenizers 0.23.3, Unicode tables included: package internal/ucd has frozen what
// that library does with each code point. The tests compare every component with it over all planes
// of Unicode that have characters and 20,000 random texts, and BERT's pipeline over every code
// point and five whole data sets. Vocabularies are trained for WordPiece ([TrainBert]) and BPE
// ([TrainByteLevel]); Unigram is read and used, not trained. Bytes that are not UTF-8, which
// Python's strings cannot hold, are read as U+FFFD.
package text
