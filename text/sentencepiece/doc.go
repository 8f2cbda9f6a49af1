// Package sentencepiece reads the models of Google's SentencePiece, such as spiece.model, spm.model,
// sentencepiece.bpe.model and tokenizer.model, and makes the parts of a tokenizer of them:
//
//	m, err := sentencepiece.Open("spiece.model")
//	parts, err := m.Components()
//	t, err := text.New(text.Config{Normalizer: parts.Normalizer, PreTokenizer: parts.PreTokenizer,
//		Model: parts.Model, Decoder: parts.Decoder})
//
// The tokens of a text are those of SentencePiece itself. text.LoadTokenizer reads the folder of a
// model that has no tokenizer.json and adds the special tokens of its kind.
package sentencepiece
