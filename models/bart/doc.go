// Package bart is an encoder, and a decoder that attends to the encoder's output:
// BartForConditionalGeneration and MBartForConditionalGeneration of transformers 5.17, tensor by
// tensor and bit by bit. BART normalizes after each part of a layer; mBART normalizes before it,
// and once more after the last layer. Package auto takes the blueprint, adds the output layer,
// trains and generates:
//
//	m, err := auto.Seq2SeqLM(ctx, "facebook/bart-large-cnn", auto.Options{})                  // of files
//	m, err := auto.NewSeq2SeqLM(bart.Config{EncoderLayers: 2, DecoderLayers: 2}, tokenizer)    // of random weights
//
// The method SetLanguages of both says between which languages an mBART translates. Classifiers,
// such as facebook/bart-large-mnli, are loaded by auto.SequenceClassification.
package bart
