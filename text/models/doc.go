// Package models has the models of Hugging Face tokenizers: what splits a word into tokens of a
// vocabulary.
//
//	m, err := models.NewWordPiece(vocabulary, models.WordPieceOptions{})
//	tokens, err := m.Tokenize(nil, "tokenizers")
//
// [WordPiece] is BERT's, [BPE] that of GPT-2, Llama and many others, [Unigram] SentencePiece's,
// [WordLevel] a plain list of words. [Parse] reads the field "model" of tokenizer.json. Your own
// model is any type with the methods of [Model].
package models
