// Package segformer has SegFormer (Xie et al., 2021): transformers' SegformerModel with the heads
// of SegformerForSemanticSegmentation and SegformerForImageClassification, tensor by tensor and bit
// by bit.
//
// Package auto loads it with a head:
//
//	model, err := auto.SemanticSegmentation(ctx, "nvidia/mit-b0", auto.Options{
//		ID2Label: []string{"road", "building", "sky"}})
//
// The encoder, the mix transformer, has stages. Each begins with a convolution whose patches
// overlap and which divides height and width by a stride, and goes on with layers of attention, in
// which fewer keys than queries keep the cost low, and feed-forward parts with a convolution of
// each channel, which takes the place of position embeddings. The decode head brings the maps of
// all stages to one size and classifies each position: its logits have the size of the map of the
// first stage, a fourth of the image's height and width. Package segment enlarges them to the size
// of the labels.
//
// Weights have the names that they have in files. transformers 5 renames them in memory; files with
// those names load too. As in transformers, layer_norm_eps has no effect: the normalizations add
// 1e-5. Unlike in transformers, reshape_last_stage has none either: if it is false, the decode head
// of transformers 5.17 takes the channels of the last map for its positions, and fails for most
// sizes.
package segformer
