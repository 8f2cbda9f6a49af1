// Package question is the task of finding the answer to a question in a text, as in SQuAD.
// [Features] makes samples from an [Example]: several, if its text is longer than the model takes.
// Each has the first and last token of the answer. [Task] computes the loss. An evaluation combines
// the logits of all samples of an example, takes the best span of its text ([Answers]) and gives
// SQuAD's exact match and F1.
//
// Package auto makes the model and the task:
//
//	qa, err := auto.QuestionAnswering(ctx, "distilbert/distilbert-base-cased-distilled-squad", auto.Options{})
//	step, err := engine.New(qa.Task(), engine.Options{})
package question
