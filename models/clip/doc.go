// Package clip has CLIP (Radford et al., 2021), an encoder of texts and an encoder of images whose
// vectors can be compared: transformers' CLIPModel and CLIPForImageClassification, tensor by tensor
// and bit by bit.
//
// Package auto loads it:
//
//	model, err := auto.ZeroShotImageClassification(ctx, "openai/clip-vit-base-patch32", auto.Options{})
//	classes, err := model.PredictFile("pet.jpg", []string{"a cat", "a dog"}, auto.ZeroShotOptions{})
//
// Package contrastive trains it on images and the texts that describe them. With the encoder of
// images alone, [auto.ImageClassification] classifies images by labels of their own.
//
// [auto.ImageClassification]: https://pkg.go.dev/github.com/gotrainer/gotrainer/models/auto#ImageClassification
package clip
