// Package contrastive trains a model on images and the texts that describe them, such as CLIP and
// SigLIP: the vector of an image should be closer to that of its own text than to those of the other
// texts in the batch, and the other way round. It is run_clip.py of transformers' examples.
//
//	model, err := auto.ZeroShotImageClassification(ctx, "openai/clip-vit-base-patch32", auto.Options{})
//	sample, err := model.EncodeFile("shoe.jpg", "a red running shoe")
//	step, err := engine.New(model.Task(), engine.Options{Optimizer: optim.AdamW{LR: 1e-5}})
//
// The loss depends on what else is in a batch: it grows with the size of the batch, and two images
// with one text in a batch contradict each other. So batches should be large, and an evaluation
// should have the batch size of the training. data.NoDuplicates keeps equal texts apart. Of several
// processes each compares only the samples of its own batches, as in transformers.
package contrastive
