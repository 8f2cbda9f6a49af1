// Package inputs has the inputs of text models, for any task: token ids with their types and mask.
// [Limits.Collate] pads texts to a batch and refuses what the model cannot take, so that it does
// not fail inside an operator. The tasks of packages classify, tokenclass, question and maskedlm
// add their labels.
package inputs
