// Package inputs has the inputs of models, for any task: token ids of texts with their types and
// mask, and the pixels of images. [Limits.Collate] pads texts to a batch, [ImageLimits.Collate]
// joins images to one. Both refuse what the model cannot take, so that it does not fail inside an
// operator. The tasks of packages classify, tokenclass, question, maskedlm and seq2seq add their
// labels.
package inputs
