// Package dpo is the task of learning from preferences without a model of rewards: direct
// preference optimization, DPOTrainer of TRL 1.16. A [Sample] is a prompt with an answer that is
// preferred to another one. The model learns to find the first more probable than the second,
// beyond how much a frozen reference does so.
//
// Package auto makes samples, the reference and the task:
//
//	lm, err := auto.CausalLM(ctx, "HuggingFaceTB/SmolLM2-135M-Instruct", auto.Options{})
//	preferences, err := chat.ReadPreferencesFile("pairs.jsonl")
//	train := data.Map(data.Slice[chat.Preference](preferences), lm.EncodePreference)
//	task, err := lm.DPOTask(dpo.TaskOptions{LossOptions: dpo.LossOptions{Beta: 0.1}})
//	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 1e-6}})
//
// The reference is the model as it is when the task is made: a copy of it; with an adapter
// (AddLoRA) the model itself without that, or with the adapter as it was if it had been trained
// before; or numbers that [Task.Precompute] has computed. A run that continues makes its task of
// the same model as it did at first.
//
// Log probabilities are computed without the logits of a whole batch being there at a time, as in TRL.
//
// # What is logged
//
// Besides the loss a row of the log has the following, under TRL's names: the mean of what each
// micro-batch since the last row gives. An evaluation has them over all of its samples, or tokens; in
// TRL it is the mean over its batches, which depends on how large these are.
//
//	rewards/chosen, rewards/rejected   β times the logarithm of how much more probable an answer is
//	                                   than to the reference
//	rewards/accuracies                 the share of pairs whose chosen answer has the larger reward
//	rewards/margins                    how much larger it is
//	logps/chosen, logps/rejected       the logarithm of the probability of an answer
//	logits/chosen, logits/rejected     the mean logit at the tokens of answers
//	entropy                            of the distribution of the next token, at those of answers
//	mean_token_accuracy                the share of the tokens of chosen answers that are the most
//	                                   probable ones
//
// What TRL logs as num_tokens, and begins again with 0 after a resume, is num_input_tokens_seen of
// trainer.Options.CountTokens.
package dpo
