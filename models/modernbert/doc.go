// Package modernbert holds ModernBERT's encoder (Warner et al., 2024): transformers'
// ModernBertModel, tensor by tensor and bit by bit. Positions are rotary instead of an embedding.
// In most layers tokens attend only to their neighbourhood, in some to the whole text. The
// feed-forward part is gated. Texts may have 8192 tokens. Sources:
// https://arxiv.org/abs/2412.13663; transformers' models/modernbert.
//
// Package auto loads it with a head:
//
//	texts, err := auto.SequenceClassification(ctx, "answerdotai/ModernBERT-base", auto.Options{})
package modernbert
