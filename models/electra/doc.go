// Package electra holds ELECTRA's encoder (Clark et al., 2020): transformers' ElectraModel, tensor
// by tensor and bit by bit. It is BERT's, whose embeddings may be narrower than its hidden states
// and are then projected to their size. Discriminators and generators differ in that alone.
//
// Package auto loads it with a head:
//
//	ner, err := auto.TokenClassification(ctx, "google/electra-small-discriminator", auto.Options{})
package electra
