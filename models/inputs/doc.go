// Package inputs is what models of texts are given, for any task: token ids with their
// types and mask. [Collate] pads texts to a batch and refuses what the model cannot take, before it
// can fail inside an operator. The tasks of packages classify, tokenclass, question and maskedlm
// add their labels.
package inputs
