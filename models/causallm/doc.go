// Package causallm is the task of predicting each next token: causal language modeling. A [Sample]
// is a text as token ids. The loss is the cross-entropy of each token given those before it,
// averaged over the tokens of a whole accumulation window, as in transformers 5.17. The perplexity
// of an evaluation is math.Exp of its loss.
//
// Package auto makes the model and the task:
//
//	lm, err := auto.CausalLM(ctx, "distilbert/distilgpt2", auto.Options{})
//	step, err := engine.New(lm.Task(), engine.Options{})
//
// Texts of any length make padded batches. [Blocks] joins them end to end and cuts the result into
// blocks of equal length, which wastes nothing: group_texts of run_clm. [Pack] joins texts that do
// not see each other: packing of TRL. Labels leave out what
// should not be learned, such as the question before an answer ([inputs.IgnoreIndex]). Package auto
// makes such samples: EncodeChat from conversations, EncodeCompletion from other texts.
//
// An evaluation can have the model generate the answers, and score them:
//
//	write, err := lm.Writer(auto.Generation{MaxNewTokens: 60})
//	task, err := causallm.NewTask(lm, causallm.TaskOptions{Write: write,
//		Metrics: []metrics.Metric[string]{&metrics.ROUGE{}}})
//
// [ImageTask] is the task of texts with images, an [ImageSample] each.
package causallm
