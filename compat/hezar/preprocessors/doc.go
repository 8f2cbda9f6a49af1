// Package preprocessors reads and writes the folder preprocessor/ of a Hezar model: the settings of
// the image processor, and the text normalizer and tokenizer of package text/hezar.
//
//	p, err := preprocessors.Load("crnn-fa-printed-96-long")
//	im, err := vision.Open("plate.png", vision.DecodeOptions{})
//	pixels, err := p.Image.Process(im) // as hezar's ImageProcessor gives them, to the last bit
//
// The package does not use tensors.
package preprocessors
