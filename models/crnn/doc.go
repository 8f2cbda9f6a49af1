// Package crnn reads lines of text from pictures: convolutions see, two bidirectional LSTMs read
// from left to right, and CTC aligns their output with the label (Shi, Bai and Yao, 2015). It is
// Hezar's CRNNImage2Text, tensor by tensor: the same names, the same initial bits for the same
// seed, the same numbers for the same weights.
//
//	model, err := crnn.New(crnn.Config{Charset: charset})
//	files := []crnn.File{{Path: "0001.png", Text: "12345"}, ...}
//	pictures, err := crnn.OpenPictures(files, model.Config(), crnn.PictureOptions{})
//	train, err := model.Config().Samples(pictures)
//	step, err := crnn.NewStep(model, engine.Options{Optimizer: optim.Adam{LR: 1e-3}})
//	t, err := trainer.New(step, trainer.Options{OutputDir: "runs/plates", BatchSize: 16})
//	result, err := t.Fit(ctx, train, valid)
//
// [Model.Save] saves a model, [Load] loads it, and [Model.Read] reads text with it.
package crnn
