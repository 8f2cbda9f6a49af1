// Package convnext has ConvNeXt (Liu et al., 2022) and ConvNeXt V2 (Woo et al., 2023): transformers'
// ConvNextModel and ConvNextV2Model, tensor by tensor and bit by bit.
//
// Package auto loads it with a head:
//
//	model, err := auto.ImageClassification(ctx, "facebook/convnext-tiny-224", auto.Options{
//		ID2Label: []string{"cat", "dog"}, InitMismatched: true})
//
// An image is cut into patches, whose vectors go through stages of convolutional layers. Each stage
// after the first one halves height and width. The mean over what remains stands for the image, so
// images may have any size from PatchSize times two for each of these stages.
package convnext
