// Package swin has Swin Transformer (Liu et al., 2021): transformers' SwinForImageClassification,
// tensor by tensor and bit by bit.
//
// Package auto loads it with a head:
//
//	model, err := auto.ImageClassification(ctx, "microsoft/swin-tiny-patch4-window7-224",
//		auto.Options{})
//
// The positions of a map attend only to those in their window, so the cost grows with the size of
// an image and not with its square. In every second layer the windows are shifted by half their
// size, which connects them. Between stages, four neighbours become one position with twice the
// channels. The head sees the mean of the last map.
//
// Images may have any size for which the maps of all stages are as large as a window or larger,
// unless positions are embedded as well (Config.UseAbsoluteEmbeddings).
package swin
