// Package question is the task of finding the answer to a question in a text, as in SQuAD.
// [Features] makes samples of an [Example], several where its text is longer than the model takes,
// each with the tokens between which the answer is. [Task] computes the loss; an evaluation puts
// the logits of all samples of an example together, takes the best stretch of its text ([Answers])
// and gives SQuAD's exact match and F1.
//
// Package auto makes the model and the task:
//
//	qa, err := auto.QuestionAnswering(ctx, "distilbert/distilbert-base-cased-distilled-squad", auto.Options{})
//	step, err := engine.New(qa.Task(), engine.Options{})
package question
