// Package mpnet holds MPNet's encoder (Song et al., 2020): transformers' MPNetModel, tensor by
// tensor and bit by bit. It has no token types, counts positions only over tokens that are not
// padding, as RoBERTa does, and adds to every attention score a bias for the distance of the two
// tokens, which all layers share.
//
// Package auto loads it with a head:
//
//	qa, err := auto.QuestionAnswering(ctx, "microsoft/mpnet-base", auto.Options{})
package mpnet
