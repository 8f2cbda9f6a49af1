// Package reward trains reward models, which score texts, from preferences: RewardTrainer of TRL
// 1.16. A [Sample] has two texts, of which one is preferred. The model is a
// classifier with one label, whose logit is the reward of a text. It learns to give the chosen text
// a larger reward than the rejected one: -log σ(chosen - rejected - margin).
//
// Package auto makes the model, samples and the task:
//
//	m, err := auto.RewardModel(ctx, "Qwen/Qwen2.5-0.5B-Instruct", auto.Options{})
//	preferences, err := chat.ReadPreferencesFile("pairs.jsonl")
//	train := data.Map(data.Slice[chat.Preference](preferences), m.EncodePreference)
//	task, err := m.RewardTask(reward.TaskOptions{})
//	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 1e-4}})
//	rewards, err := m.Score(ctx, []string{"The sky is blue."}) // when it is trained
//
// # What is logged
//
// Besides the loss, a row of the log has the following, under TRL's names: for each, the mean over
// the micro-batches since the last row. An evaluation has the numbers of all of its samples; TRL
// has the means over its batches, which depend on their size.
//
//	accuracy                             the share of pairs whose chosen text has the larger reward
//	margin                               how much larger it is, on average
//	min_reward, mean_reward, max_reward  of the rewards of all texts, chosen or rejected
//
// What TRL logs as num_tokens, and restarts at 0 after a resume, is num_input_tokens_seen of
// trainer.Options.CountTokens.
package reward
