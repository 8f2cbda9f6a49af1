// Package modernbert holds ModernBERT's encoder (Warner et al., 2024): transformers' ModernBertModel,
// tensor by tensor and bit by bit. Tokens are turned by their positions instead of getting an
// embedding for them; in most layers they attend to their neighbourhood alone, in some to the whole
// text, and the feed-forward part is gated. Texts may have 8192 tokens. Sources:
// https://arxiv.org/abs/2412.13663; transformers' models/modernbert.
//
// Package auto loads it with a head:
//
//	texts, err := auto.SequenceClassification(ctx, "answerdotai/ModernBERT-base", auto.Options{})
package modernbert
