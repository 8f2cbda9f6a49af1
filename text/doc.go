// Package text turns text into token ids and back, with tokenizers that give, token for token, what
// Hugging Face's give.
//
//	tok, err := text.LoadTokenizer("bert-base-uncased") // the folder of a model: tokenizer.json, or what it has instead
//	e, err := tok.EncodePair("How old are you?", "I am six.", nil)
//	fmt.Println(e.IDs, e.TypeIDs, e.Tokens)
//
// # How a text becomes tokens
//
// A [Tokenizer] is a pipeline of five parts. Each has its own package and the name that it has in
// the library tokenizers, so that library's documentation applies here. Added tokens such as [MASK]
// are cut out; a normalizer cleans the rest (package normalizers); a pre-tokenizer cuts it into
// words (pretokenizers); a model cuts words into tokens of its vocabulary (models); a
// post-processor puts special tokens around them (processors). [Tokenizer.Decode] goes back, with a
// decoder (decoders). [New] puts parts together, [LoadTokenizer] reads them from tokenizer.json
// or makes them from older files, [NewBert] and [NewByteLevel] make BERT's and GPT-2's from a
// vocabulary.
//
// # Encodings
//
// An [Encoding] has ids and types for the model. For each token it also has its text, its word and
// the span of the text that it came from, in characters as Python counts them and in bytes as Go
// does. If you need only ids, [Tokenizer.AppendIDs] and [Tokenizer.IDsBatch] are faster. A
// Tokenizer is immutable: [Tokenizer.WithTruncation] and [Tokenizer.WithPadding] return a new one
// that shares its vocabulary.
//
// # Exactness
//
// The reference is tokenizers 0.23.3, including its Unicode tables: package internal/ucd records
// what that library does with each code point. The tests compare every component with it on all
// planes of Unicode that have characters and on 20,000 random texts, and BERT's pipeline on every
// code point and five whole data sets. Vocabularies can be trained for WordPiece ([TrainBert]) and
// BPE ([TrainByteLevel]); Unigram can be read and used, but not trained. Bytes that are not UTF-8,
// which Python's strings cannot hold, are read as U+FFFD.
package text
