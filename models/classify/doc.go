// Package classify is the task of classifying texts or images, or of predicting numbers for them,
// whatever computes the logits. A [Sample] is a text as token ids and its label. [Task] pads
// samples to batches, computes the loss that [Head] asks for, and gives the metrics of an
// evaluation. [ImageTask] does the same for images, and [ChoiceTask] chooses among several texts.
//
//	model, report, err := bert.LoadClassifier(dir, classify.Head{NumLabels: 2})
//	step, err := classify.NewStep(model, classify.TaskOptions{}, engine.Options{Optimizer: optim.AdamW{LR: 5e-5}})
package classify
