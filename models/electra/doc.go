// Package electra holds ELECTRA's encoder (Clark et al., 2020): transformers' ElectraModel, tensor
// by tensor and bit by bit. It is BERT's encoder, except that the embeddings may be narrower than
// the hidden states and are then projected to their size. Discriminators and generators differ only
// in that.
//
// Package auto loads it with a head:
//
//	ner, err := auto.TokenClassification(ctx, "google/electra-small-discriminator", auto.Options{})
package electra
