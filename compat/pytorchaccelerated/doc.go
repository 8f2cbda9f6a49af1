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
// What one overrides in a subclass is a field of [Methods], what one does in a callback a method of
// a hook interface such as [TrainStepEndHook]. The defects of pytorch-accelerated are the fields of
// [Rules]; none of them is here unless [Options].Rules is [Exact], and then runs are those of
// Python to the last bit. docs/from-pytorch-accelerated.md has a table of every class, argument,
// method, callback and file. New programs should look at package trainer first, whose loop this is.
package pytorchaccelerated
