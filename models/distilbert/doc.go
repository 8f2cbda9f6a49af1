// Package distilbert holds DistilBERT (Sanh et al., 2019) with a head that classifies texts:
// transformers' DistilBertForSequenceClassification, tensor by tensor and bit by bit, as package
// bert is BertForSequenceClassification.
//
//	model, report, err := distilbert.LoadClassifier("distilbert-base-uncased", distilbert.Head{NumLabels: 2})
//	step, err := distilbert.NewStep(model, engine.Options{Optimizer: optim.AdamW{LR: 5e-5}})
//
// It has no token types and no pooler; its head is two linear layers over the first token.
package distilbert
