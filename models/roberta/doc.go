// Package roberta holds RoBERTa (Liu et al., 2019) with a head that classifies texts: transformers'
// RobertaForSequenceClassification, tensor by tensor and bit by bit, as package bert is
// BertForSequenceClassification.
//
//	model, report, err := roberta.LoadClassifier("roberta-base", roberta.Head{NumLabels: 2})
//	step, err := roberta.NewStep(model, engine.Options{Optimizer: optim.AdamW{LR: 2e-5}})
//
// It differs from BERT in its head, which has no pooler before it, and in its positions, which
// start at PadTokenID+1 and count only tokens that are not padding. A text therefore has at most
// MaxPositions-PadTokenID-1 tokens.
package roberta
