// Package deberta holds the encoder of DeBERTa v2 and v3 (He et al., 2021): transformers'
// DebertaV2Model, tensor by tensor and bit by bit. Attention is disentangled: how much a token
// attends to another depends on the content of both, on the distance between them, and on
// combinations of the two. There is no fused kernel for it. Sources:
// https://arxiv.org/abs/2006.03654, https://arxiv.org/abs/2111.09543; transformers'
// models/deberta_v2.
//
// Package auto loads it with a head:
//
//	texts, err := auto.SequenceClassification(ctx, "microsoft/deberta-v3-base", auto.Options{})
package deberta
