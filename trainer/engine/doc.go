// Package engine turns a model into something that package trainer can train. It is the only
// package that knows both sides: the loop's [trainer.Step] and libtorch.
//
// A [Task] connects a model to its data: how samples become a batch, and how a batch becomes a
// loss. [New] makes a Step from it:
//
//	task := engine.Classify(model)
//	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 1e-3}})
//	t, err := trainer.New(step, trainer.Options{OutputDir: "runs/mnist", Epochs: 3, BatchSize: 64})
//	result, err := t.Fit(ctx, train, valid)
//
// [Main] does all of this, as the main function of a program.
//
// An update follows the order of Hugging Face's Trainer: the last backward pass of the window,
// unscale, clip, optimizer step (skipped if loss scaling found an inf or nan), clearing the
// gradients. Losses and norms stay on the device until something is logged; those of an evaluation
// stay until it ends.
//
// Every batch runs in its own [torch.Scope], so nothing that a task makes outlives its batch unless
// it is kept.
//
// # What to override
//
// In Python, you subclass Hugging Face's Trainer. Here the same places are fields of [Options], or
// interfaces that a task may implement. New refuses an option that the task cannot support.
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
//	checks of the arguments         OptionsValidator, and GroupValidator for the number of processes
//	floating_point_ops              TokenCounter
//	a collator's generator          GeneratorOwner
//	_save_checkpoint                StateOwner, for what the task keeps besides
//	accelerator.gather              ForwardPass.Gather, GatherObject
//	set_seed                        Seeder, for generators of the task itself
//	set_seed(device_specific=True)  DeviceSpecificSeeder
//	get_input_embeddings            InputEmbedder, for NEFTune
//	gradient_checkpointing_enable   GradientCheckpointer
//	LengthGroupedSampler            data.GroupedByLength with Step.GlobalPermutation
//	BatchRebalanceSampler           data.BatchRebalance
//
// # Several processes
//
// With trainer.Options.Group, the Steps of several processes train together, as under
// DistributedDataParallel; docs/distributed.md has the rules.
//
// # Equality with transformers
//
// On the CPU, with the same libtorch and one thread, all of this gives the same bits as
// transformers 5.17. 17 recorded runs are part of the tests, and 3 more on two processes.
package engine
