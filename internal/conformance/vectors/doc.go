// Package vectors compares gotrainer with recorded outputs of Hezar other than training runs:
// forward and backward passes, processed pictures, data sets, texts and metrics.
//
//	for _, o := range vectors.Run("cases/hezar_images/real", "data") {
//		fmt.Println(o.Name, o.Err)
//	}
//
// The contents of a folder are recognised by its file and the fields in it, not by its name:
//
//	result.json with gradient_stats      a forward and backward pass; case.safetensors has the tensors     forward.go
//	result.json with image_processor     a data set for OCR, its batches and predictions                   ocr.go
//	result.json with pieces              a data set of texts                                               texts.go
//	cases.json                           pictures through the image processor                              images.go
//	vectors.json                         a list for each function: cer_wer, ctc_greedy, padding, ...       functions.go
//
// Integers, texts and pictures must be equal, metrics to 1e-12. Numbers that a network computes may
// differ by 1e-4 on other code paths than those of the recording.
package vectors
