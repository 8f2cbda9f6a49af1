// Package vit holds the Vision Transformer (Dosovitskiy et al., 2021) and DeiT (Touvron et al., 2021):
// transformers' ViTModel and DeiTModel without their poolers, tensor by tensor and bit by bit.
//
// Package auto loads it with a head:
//
//	model, err := auto.ImageClassification(ctx, "google/vit-base-patch16-224-in21k", auto.Options{
//		ID2Label: []string{"cat", "dog"}})
//
// A picture is cut into patches, each of which is a token of an encoder; a token in front of them
// stands for the whole picture. DeiT has one more, which learnt from another network and which its
// ForImageClassification does not read. Weights have the names that they have in files, which
// transformers 5 keeps there and changes in memory; files with the latter are loaded, too.
package vit
