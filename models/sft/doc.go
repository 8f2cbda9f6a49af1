// Package sft is the task of learning to continue texts as SFTTrainer of TRL 1.16 computes it. It
// needs less memory than that of package causallm, since the logits of a whole batch are never in
// memory at the same time, and logs more. The loss is the same but for rounding:
//
//	lm, err := auto.CausalLM(ctx, "HuggingFaceTB/SmolLM2-135M", auto.Options{})
//	conversations, err := chat.ReadFile("chats.jsonl")
//	train := data.Map(data.Slice[chat.Conversation](conversations), lm.EncodeChat)
//	task, err := lm.SFTTask(sft.TaskOptions{})
//	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 2e-5}})
//
// Samples are those of package causallm. Which tokens are learned is decided where they are made:
// Encode of package auto learns whole texts, EncodeCompletion the completion
// (completion_only_loss), EncodeChat the answers that the chat template marks
// (assistant_only_loss). [causallm.Pack] joins samples (packing); with SetPaddingFree of package auto
// there is no padding (padding_free). [ImageTask] is the task for texts with images.
//
// # What is logged
//
// Besides the loss, a row of the log has the following, under TRL's names: for each, the mean over
// the micro-batches since the last row. An evaluation has the means over all of its tokens; TRL has
// the means over its batches, which depend on their size.
//
//	entropy              of the distribution of the next token, at the tokens that are learned
//	mean_token_accuracy  the share of these tokens that are the most probable ones
//
// What TRL logs as num_tokens, and restarts at 0 after a resume, is num_input_tokens_seen of
// trainer.Options.CountTokens.
package sft
