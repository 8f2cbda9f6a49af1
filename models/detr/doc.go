// Package detr has DETR (Carion et al., 2020), which finds objects in images: transformers'
// DetrForObjectDetection with a ResNet, tensor by tensor and bit by bit.
//
// Package auto loads and trains it:
//
//	model, err := auto.ObjectDetection(ctx, "facebook/detr-resnet-50", auto.Options{})
//	found, err := model.PredictFile("street.jpg", 0.9)
//
// A ResNet turns an image into a map of features, which an encoder relates to each other. A decoder
// turns a fixed number of queries into classes and boxes.
//
// Files that were made with a ResNet of timm load without it: its weights get the names that
// transformers' own ResNet has, and are saved under these.
//
// The backbone's first convolution and first stage are not trained. transformers 5.17 trains none
// of it, since it looks for parts of names that its ResNet does not have.
// auto.ObjectDetector.FreezeBackbone does the same.
//
// Weights have the names that they have in files. transformers 5 renames them in memory; files with
// those names load too.
package detr
