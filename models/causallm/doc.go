// Package causallm is the task of predicting each next token: causal language modelling. A [Sample]
// is a text as token ids; the loss is the cross-entropy of each token given those before it,
// averaged over the tokens of a whole accumulation window, as transformers 5.17 does. The
// perplexity of an evaluation is math.Exp of its loss.
//
// Package auto makes the model and the task:
//
//	lm, err := auto.CausalLM(ctx, "distilbert/distilgpt2", auto.Options{})
//	step, err := engine.New(lm.Task(), engine.Options{})
//
// Texts of any length make padded batches. [Blocks] joins them end to end and cuts the result into
// blocks of equal length, which wastes nothing: group_texts of run_clm. Labels leave out what
// should not be learned, such as the question before an answer ([inputs.IgnoreIndex]); EncodeChat
// of package auto makes such samples of conversations.
package causallm
