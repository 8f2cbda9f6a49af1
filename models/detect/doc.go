// Package detect is the task of finding objects in images: their classes and the boxes around them.
// A [Sample] is a prepared image with what is in it. [Task] pads images to batches, matches what
// the model predicts with what is there, computes DETR's loss ([LossSettings]), and gives COCO's
// mean average precision in an evaluation.
//
// Package auto makes the model and the task:
//
//	model, err := auto.ObjectDetection(ctx, "hustvl/yolos-tiny", auto.Options{ID2Label: set.Classes,
//		InitMismatched: true})
//	sample, err := model.Encode(image, objects)
//	step, err := engine.New(model.Task(), engine.Options{})
//
// A model predicts a fixed number of boxes, most of them of the class "no object", which comes
// after the others. Package data/coco reads images with boxes from COCO's files.
package detect
