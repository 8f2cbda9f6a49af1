// Package engine turns a model into something that package trainer can train. It is the one package
// that knows both sides: the loop's [trainer.Step] and libtorch.
//
// A [Task] ties a model to its data: how samples become a batch, and how a batch becomes a loss.
// [New] makes a Step of it:
//
//	task := engine.Classify(model)
//	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 1e-3}})
//	t, err := trainer.New(step, trainer.Options{OutputDir: "runs/mnist", Epochs: 3, BatchSize: 64})
//	result, err := t.Fit(ctx, train, valid)
//
// [Main] does all of it, as the main function of a program.
//
// The order of an update is that of Hugging Face's Trainer: the last backward of the window,
// unscale, clip, optimizer step (left out when loss scaling found an inf or nan), gradients
// removed. Losses and norms stay on the device until something is logged, those of an evaluation
// until it ends.
//
// Every batch runs in its own [torch.Scope], so nothing a task makes outlives its batch unless it
// is kept.
//
// # What to override
//
// A user of Hugging Face's Trainer subclasses it. Here the same places are fields of [Options] and
// interfaces that a task may implement; New refuses an option that the task has no means to carry
// out.
//
//	compute_loss                    Task.Loss
//	compute_loss_func               Options.Loss, of a Predictor
//	label_smoothing_factor          Options.LabelSmoothing, of a Predictor
//	num_items_in_batch              ItemCounter and ForwardPass.Items; a loss that used it is PerItem
//	training_step                   TrainingStepper
//	a look at every loss            LossObserver
//	more numbers in Trainer.log     TrainingLogger; BeforeLog of trainer.Hooks where they are not the task's
//	prediction_step                 Predictor; or Evaluator, which does everything itself
//	compute_metrics                 Options.ComputeMetrics over all predictions; Observer in the task, batch by batch
//	batch_eval_metrics              Options.BatchMetrics
//	preprocess_logits_for_metrics   Options.PreprocessLogits
//	label_names, return_outputs     Outputs
//	predict().predictions           Step.Predictions
//	create_optimizer                Options.Optimizer (optim.ByName has Hugging Face's names), Options.Groups
//	create_scheduler                trainer.Options.Schedule
//	model_init                      NewFromInit
//	checks of the arguments         OptionsValidator
//	floating_point_ops              TokenCounter
//	a collator's generator          GeneratorOwner
//	get_input_embeddings            InputEmbedder, for NEFTune
//	gradient_checkpointing_enable   GradientCheckpointer
//	LengthGroupedSampler            data.GroupedByLength with Step.GlobalPermutation
//	BatchRebalanceSampler           data.BatchRebalance
//
// # Several processes
//
// With trainer.Options.Group a Step trains together with those of other processes, as
// DistributedDataParallel does; docs/distributed.md has the rules.
//
// # What it equals
//
// On the CPU, with the same libtorch and one thread, all of this has the bits of transformers 5.17:
// 17 recorded runs are part of the tests, and 3 on two processes.
package engine
