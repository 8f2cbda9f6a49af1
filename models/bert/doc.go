// Package bert holds BERT (Devlin et al., 2018) with a head that classifies texts: transformers'
// BertForSequenceClassification, tensor by tensor, with the same initial bits for the same seed,
// the same numbers for the same weights and the same gradients, dropout included, on the same CPU.
//
//	model, report, err := bert.LoadClassifier("bert-base-uncased", bert.Head{NumLabels: 2})
//	step, err := bert.NewStep(model, engine.Options{Optimizer: optim.AdamW{LR: 5e-5}})
//
// Folders are those of transformers: config.json with model.safetensors (whole or in shards) or
// pytorch_model.bin, in any floating-point type. AutoModelForSequenceClassification.from_pretrained
// reads what [Classifier.Save] writes.
//
// A folder of Hezar's BertTextClassification (model_config.yaml and model.pt) loads too, and the
// model computes what Hezar's does, which ignores token types.
package bert
