// Package preprocessors holds what stands in the folder preprocessor/ of a Hezar model, as settings
// that are read and written in Hezar's files: the image processor, and beside it the text
// normalizer and the tokenizer of package text/hezar.
//
//	p, err := preprocessors.Load("crnn-fa-printed-96-long")
//	im, err := vision.Open("plate.png", vision.DecodeOptions{})
//	pixels, err := p.Image.Process(im) // as hezar's ImageProcessor gives them, to the last bit
//
// The package knows no tensors.
package preprocessors
