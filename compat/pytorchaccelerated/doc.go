// Package pytorchaccelerated is the Trainer of pytorch-accelerated 0.1.61 in Go: a model, a loss
// function, an optimizer and callbacks go in, and Train, Evaluate and Train again follow, with its
// words, its order of events and its files.
//
//	t, err := pytorchaccelerated.New(model, functional.CrossEntropy, optim.AdamW{LR: 1e-3},
//		pytorchaccelerated.Options[Sample, Batch]{})
//	err = t.Train(ctx, train, pytorchaccelerated.TrainOptions[Sample, Batch]{
//		NumEpochs: 8, EvalDataset: valid, PerDeviceBatchSize: 32,
//		CreateSchedulerFn: pytorchaccelerated.CosineLR{NumWarmupEpochs: 1}.Create,
//	})
//	loss, err := t.History().LatestMetric("eval_loss_epoch")
//
// As in Python the Trainer stands on Accelerate, here package accelerate. Its loop is that of
// package trainer: a training state is whole or not there at any instant, a run continues from it
// bit for bit, and one that is cancelled leaves its state to the callback [SaveTrainingState].
// Programs that are new should look at package trainer first, which writes its own logs and
// checkpoints; this package is for those who have a pytorch-accelerated program.
//
// # Two doors
//
// Everything that one overrides in a subclass is a field of [Methods]; nil means the method of the
// Trainer of the same name, which a field of one's own can call, as Python's super() does.
// Everything that one would do in a callback is a method of a hook interface, such as
// [TrainStepEndHook]: a callback is any value that has one of them, and [New] refuses one that has
// none. A callback is given the [Run], which holds what the Trainer's attributes hold.
//
// # Placeholders
//
// A schedule is made when the loaders are known. [TrainOptions].CreateSchedulerFn is given the
// numbers as [Placeholders]; for schedules by name, [Partial] takes the symbols [NumEpochs],
// [NumUpdateStepsPerEpoch] and the others among its arguments, and sums and products of them.
//
// # Its defects
//
// pytorch-accelerated has some, which recorded runs show: gradients are clipped before they are
// complete, the epoch's loss is too small under accumulation, dropout stays off after an evaluation
// inside an epoch, and more. None of them is here unless [Options].Rules is [Exact]; then runs are
// those of Python to the last bit. The fields of [Rules] list them.
//
// docs/from-pytorch-accelerated.md has a table of every class, argument, method, callback and file.
package pytorchaccelerated
