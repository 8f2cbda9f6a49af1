// Package tokenclass is the task of classifying the tokens of a text: names of persons, parts of
// speech. A [Sample] is a text as token ids, with a label for each. [Align] makes these labels from
// the labels of words. [Task] pads samples to batches, computes the loss and gives the metrics of
// an evaluation, by default over whole entities.
//
// Package auto makes the model and the task:
//
//	ner, err := auto.TokenClassification(ctx, "dslim/bert-base-NER", auto.Options{})
//	step, err := engine.New(ner.Task(), engine.Options{})
package tokenclass
