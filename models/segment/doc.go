// Package segment trains and evaluates models that give each pixel of an image a class: semantic
// segmentation.
//
// A [Task] ties a model to a data set of images with label maps. Package auto loads a model and
// makes samples of images:
//
//	model, err := auto.SemanticSegmentation(ctx, "nvidia/mit-b0", auto.Options{ID2Label: names})
//	sample, err := model.EncodeFile("images/0001.jpg", "masks/0001.png")
//	step, err := engine.New(model.Task(), engine.Options{})
//	t, err := trainer.New(step, trainer.Options{OutputDir: "runs/segformer"})
//	result, err := t.Fit(ctx, train, valid)
//
// An evaluation gives the numbers of evaluate's mean_iou: see [metrics.MeanIoU].
package segment
