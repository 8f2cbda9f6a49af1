// Package kto is the task of learning from answers that are good or bad on their own: Kahneman-Tversky
// optimization, KTOTrainer of TRL 1.16. A [Sample] is a prompt with one completion and a label. The
// model learns to make good completions more probable than a frozen reference does, and bad ones less
// probable. Preferences in pairs are for package dpo.
//
// Package auto makes samples, the reference and the task:
//
//	lm, err := auto.CausalLM(ctx, "HuggingFaceTB/SmolLM2-135M-Instruct", auto.Options{})
//	rated, err := chat.ReadUnpairedPreferencesFile("rated.jsonl")
//	train := data.Map(data.Slice[chat.UnpairedPreference](rated), lm.EncodeUnpairedPreference)
//	task, err := lm.KTOTask(kto.TaskOptions{})
//	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 1e-6}})
//
// The reference is the model as it is when the task is made, as in package dpo.
//
// # The divergence
//
// The loss [KTO] compares each completion with how far the model has moved from the reference on the
// whole. It estimates that, the KL divergence, from each prompt of a micro-batch with the completion
// of the sample before it. So a micro-batch needs at least two samples: with one, the estimate is the
// reward itself. The estimate is the mean over all processes. If a micro-batch is trained in parts
// (DivideOnOutOfMemory of the trainer), each part makes its own.
//
// TRL pairs the completions once for all, in batches of the data set's order, which it therefore must
// not shuffle. Here they are paired in each micro-batch, so any order works; data.Sequential gives
// TRL's runs.
//
// # What is logged
//
// Besides the loss, a row of the log has the following, under TRL's names: for each, the mean over
// the micro-batches since the last row, of the samples or tokens of all processes. A micro-batch
// without good completions has no number of them, and likewise for bad ones. An evaluation has the
// means over all of its samples or tokens; TRL has the means over its batches, which depend on their
// size.
//
//	rewards/chosen, rewards/rejected   β times the logarithm of how much more probable a good or a bad
//	                                   completion is than to the reference
//	rewards/margins                    their difference
//	logps/chosen, logps/rejected       the logarithm of the probability of a completion
//	logits/chosen, logits/rejected     the mean logit at the tokens of completions
//	entropy                            of the distribution of the next token, at those of completions
//	kl                                 the divergence; 0 for [APOZeroUnpaired]
//
// What TRL logs as num_tokens is num_input_tokens_seen of trainer.Options.CountTokens.
package kto
