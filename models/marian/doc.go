// Package marian translates: transformers' MarianMTModel, to which the models of Helsinki-NLP
// (opus-mt-en-de and many others) belong, tensor by tensor and bit by bit. Its layers are those of
// package bart; positions are sines and cosines instead of weights. Package auto takes the
// blueprint, adds the output layer, trains and generates:
//
//	m, err := auto.Seq2SeqLM(ctx, "Helsinki-NLP/opus-mt-en-de", auto.Options{})                // of files
//	m, err := auto.NewSeq2SeqLM(marian.Config{EncoderLayers: 6, DecoderLayers: 6}, tokenizer)   // of random weights
//
// The folder's source.spm, target.spm and vocab.json become a tokenizer with a side for each
// language: see [text.LoadTokenizer]. A model for several target languages is told which by the
// beginning of the source text, such as ">>fra<< ".
package marian
