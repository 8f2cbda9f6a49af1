// Package yolos has YOLOS (Fang et al., 2021), a Vision Transformer that finds objects:
// transformers' YolosForObjectDetection, tensor by tensor and bit by bit.
//
// Package auto loads and trains it:
//
//	model, err := auto.ObjectDetection(ctx, "hustvl/yolos-tiny", auto.Options{})
//	found, err := model.PredictFile("street.jpg", 0.5)
//
// The patches of an image are followed by detection tokens, each of which becomes a class and a
// box. Positions are interpolated, so images may have any size.
package yolos
