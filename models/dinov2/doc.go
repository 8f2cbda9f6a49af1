// Package dinov2 has DINOv2 (Oquab et al., 2023), with registers (Darcet et al., 2024) or without:
// transformers' Dinov2ForImageClassification and Dinov2WithRegistersForImageClassification, tensor by
// tensor and bit by bit.
//
// Package auto loads it with a head:
//
//	model, err := auto.ImageClassification(ctx, "facebook/dinov2-base", auto.Options{
//		ID2Label: []string{"cat", "dog"}})
//
// It is a Vision Transformer whose layers scale what they add to their input. Its head sees the
// token that stands for the whole image, and the mean of the patches. Images may have any size: the
// positions of patches are interpolated between those that the model knows.
package dinov2
