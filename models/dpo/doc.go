// Package dpo is the task of learning from preferences without a reward model: direct preference
// optimization, DPOTrainer of TRL 1.16. A [Sample] is a prompt with a preferred answer and a
// rejected one. The model learns to make the first more probable relative to the second than a
// frozen reference does.
//
// Package auto makes samples, the reference and the task:
//
//	lm, err := auto.CausalLM(ctx, "HuggingFaceTB/SmolLM2-135M-Instruct", auto.Options{})
//	preferences, err := chat.ReadPreferencesFile("pairs.jsonl")
//	train := data.Map(data.Slice[chat.Preference](preferences), lm.EncodePreference)
//	task, err := lm.DPOTask(dpo.TaskOptions{LossOptions: dpo.LossOptions{Beta: 0.1}})
//	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 1e-6}})
//
// The reference is the model as it is when the task is made: a copy of it or, with an adapter
// (AddLoRA), the model itself without the adapter. If the adapter was trained before, it is the
// model with the adapter as it was. Log probabilities that [Task.Precompute] has computed replace
// the reference. A resumed run makes its task from the same model as the first time.
//
// As in TRL, the logits of a whole batch are never in memory at the same time.
//
// # What is logged
//
// Besides the loss, a row of the log has the following, under TRL's names: for each, the mean over
// the micro-batches since the last row. An evaluation has the means over all of its samples or
// tokens; TRL has the means over its batches, which depend on their size.
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
// What TRL logs as num_tokens, and restarts at 0 after a resume, is num_input_tokens_seen of
// trainer.Options.CountTokens.
package dpo
