// Package crnn reads lines of text from pictures: convolutions see, two bidirectional LSTMs read from left to right, and CTC aligns what they
// say with the label (Shi, Bai and Yao, 2015). It is Hezar's CRNNImage2Text, tensor by tensor: the same names, the same initial bits for the
// same seed, the same numbers for the same weights.
//
//	model, err := crnn.New(crnn.Config{Charset: charset})
//	train, err := crnn.Pictures(files, labels, model.Config(), crnn.PictureOptions{})
//	step, err := crnn.NewStep(model, engine.Options{Optimizer: optim.Adam{LR: 1e-3}})
//
// A model in training form reads with [Model.Read].
package crnn
