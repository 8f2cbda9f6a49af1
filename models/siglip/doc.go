// Package siglip has SigLIP (Zhai et al., 2023) and those SigLIP 2 (Tschannen et al., 2025) that
// have its architecture, an encoder of texts and an encoder of images whose vectors can be
// compared: transformers' SiglipModel and SiglipForImageClassification, tensor by tensor and bit
// by bit.
//
// Package auto loads it:
//
//	model, err := auto.ZeroShotImageClassification(ctx, "google/siglip-base-patch16-224", auto.Options{})
//	classes, err := model.PredictFile("pet.jpg", []string{"a cat", "a dog"}, auto.ZeroShotOptions{})
//
// It differs from CLIP in what it learns: for each text and each image whether they belong
// together, and not which of a batch do. So each label has a probability of its own. Texts are
// padded to the largest number of tokens, and the last token, most often padding, stands for a
// text. A learned query attends to the patches of an image, and its result stands for the image.
//
// Package contrastive trains it on images and the texts that describe them. With the encoder of
// images alone, [auto.ImageClassification] classifies images by labels of their own. SigLIP 2 with
// images of any shape (NaFlex, model_type siglip2) is another model, which is not here.
//
// [auto.ImageClassification]: https://pkg.go.dev/github.com/gotrainer/gotrainer/models/auto#ImageClassification
package siglip
