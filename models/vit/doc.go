// Package vit has the Vision Transformer (Dosovitskiy et al., 2021) and DeiT (Touvron et al.,
// 2021): transformers' ViTModel and DeiTModel, tensor by tensor and bit by bit.
//
// Package auto loads it with a head:
//
//	model, err := auto.ImageClassification(ctx, "google/vit-base-patch16-224-in21k", auto.Options{
//		ID2Label: []string{"cat", "dog"}})
//
// Package trocr reads text in images with it.
//
// An image is cut into patches, each of which is a token of an encoder. A token before them stands
// for the whole image. DeiT has one more, trained by distillation from another network, which its
// ForImageClassification ignores.
//
// Weights have the names that they have in files. transformers 5 renames them in memory; files with
// those names load too.
package vit
