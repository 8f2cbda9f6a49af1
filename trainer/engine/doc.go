// Package engine turns a model into something that package trainer can train. It is the one package that knows both sides: the loop's
// [trainer.Step] and libtorch.
//
// A [Task] ties a model to its data: how samples become a batch, and how a batch becomes a loss. [New] makes a Step of it:
//
//	task := engine.Classify(model)
//	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 1e-3}})
//	t, err := trainer.New(step, trainer.Options{OutputDir: "runs/mnist", Epochs: 3, BatchSize: 64})
//	result, err := t.Fit(ctx, train, valid)
//
// The order of an update is that of Hugging Face's Trainer: the last backward of the window, unscale, clip, optimizer step (left out when
// loss scaling found an inf or nan), gradients removed. Losses and norms stay on the device until something is logged.
//
// Every batch runs in a [torch.Scope] of its own, so nothing a task makes outlives its batch unless it is kept.
package engine
