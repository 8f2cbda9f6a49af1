// Package grpo is the task of learning from rewards: group relative policy optimization,
// GRPOTrainer of TRL 1.16. A [Sample] is a prompt. The model completes each prompt several times,
// functions in Go score the completions, and the model learns to prefer the completions that score
// better than the others for the same prompt. With TaskOptions.RLOO it is REINFORCE leave-one-out,
// RLOOTrainer of TRL 1.16; see [RLOO].
//
// Package auto makes samples, the reference and the task:
//
//	lm, err := auto.CausalLM(ctx, "HuggingFaceTB/SmolLM2-135M-Instruct", auto.Options{})
//	short := func(c grpo.Completions) (rewards []float64, err error) {
//		for _, text := range c.Texts {
//			rewards = append(rewards, -float64(len(text)))
//		}
//		return rewards, nil
//	}
//	task, err := lm.GRPOTask(grpo.TaskOptions{Rewards: []grpo.Reward{{Name: "short", Func: short}}})
//	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 1e-6}})
//	t, err := trainer.New(step, trainer.Options{BatchSize: 4, Order: task.Order(4, 42)})
//	result, err := t.Fit(ctx, data.Map(data.Slice[string](prompts), lm.EncodePrompt), nil)
//
// # Batches
//
// The trainer counts prompts. All prompts of a batch are completed at once: BatchSize 4 and
// NumGenerations 8 make 32 completions, TRL's generation_batch_size. They are shuffled and split
// into StepsPerGeneration micro-batches, and the model trains on all of them NumIterations times. So
//
//	per_device_train_batch_size = BatchSize · NumGenerations / StepsPerGeneration
//
// The same batch is repeated for each of these micro-batches, by [Task.Order]. By default TRL splits
// the completions into the micro-batches of one update; for that, set StepsPerGeneration to
// trainer.Options.Accumulate.
//
// A checkpoint holds the completions that the model has not been trained on yet, so a resumed run
// continues bit for bit. The log probabilities at generation are kept only if the model changes
// before it has been trained on all completions, and always with RLOO.
//
// # Several processes
//
// Each process completes its own prompts, BatchSize of them, from its own random numbers: the rank
// is added to the seed, as in TRL. The processes exchange rewards, lengths and the number of tokens,
// so [ScaleBatch], [NormalizeThenSum], RLOO.NormalizeAdvantages, TopEntropyQuantile, the losses
// divided by the tokens of an update, and the log are those of all completions. The order is that of
// all processes:
//
//	Order: task.Order(4*group.World(), 42)
//
// All completions of a prompt are made by one process; TRL may divide them. A checkpoint holds the
// completions of every process. A run goes on with another number of processes only between two
// generations. An evaluation does not exchange values before it ends: with [ScaleBatch],
// [NormalizeThenSum] and RLOO.NormalizeAdvantages its loss is over the completions of one batch of
// one process.
//
// # What is logged
//
// Besides the loss, a row of the log has the following, under TRL's names: for each, the mean over
// the micro-batches since the last row. Values of completions are computed over all completions that
// were generated together.
//
//	reward, reward_std                 of the completions; the sum of the rewards by their weights
//	rewards/NAME/mean, rewards/NAME/std  of a reward function, where it applies
//	frac_reward_zero_std               the share of completions of prompts whose rewards are all equal
//	completions/mean_length, min_length, max_length  in tokens
//	completions/clipped_ratio          the share that has no end token
//	completions/mean_terminated_length, min_terminated_length, max_terminated_length  of the others
//	entropy                            of the distribution of the next token
//	kl                                 the divergence from the reference, if Beta is not 0; with RLOO
//	                                   the mean of log(p/q) of a token at generation; it may be negative
//	clip_ratio/low_mean, high_mean, region_mean, low_min, high_max  the share of clipped tokens; with
//	                                   RLOO of clipped completions
//	cispo_clip_ratio                   the same for CISPO
//	vespo/phi_seq_mean                 the mean weight, for VESPO
//
// A reward function that applies to no completion has no number. An evaluation has the numbers
// above, except those of clipping, over all of its completions or tokens; TRL has the means over
// its batches.
package grpo
