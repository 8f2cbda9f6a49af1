// Package pytorchaccelerated is the Trainer of pytorch-accelerated 0.1.61 in Go: give it a model, a
// loss function, an optimizer and callbacks, then call Train and Evaluate as often as you like. It
// has the same names, the same order of events and the same files.
//
//	t, err := pytorchaccelerated.New(model, functional.CrossEntropy, optim.AdamW{LR: 1e-3},
//		pytorchaccelerated.Options[Sample, Batch]{})
//	err = t.Train(ctx, train, pytorchaccelerated.TrainOptions[Sample, Batch]{
//		NumEpochs: 8, EvalDataset: valid, PerDeviceBatchSize: 32,
//		CreateSchedulerFn: pytorchaccelerated.CosineLR{NumWarmupEpochs: 1}.Create,
//	})
//	loss, err := t.History().LatestMetric("eval_loss_epoch")
//
// A method that you would override in a subclass is a field of [Methods]. A method of a callback
// belongs to a hook interface such as [TrainStepEndHook]. The defects of pytorch-accelerated are
// the fields of [Rules]. None of them is present unless [Options].Rules sets it; with [Exact] all
// are, and runs match Python to the last bit. docs/from-pytorch-accelerated.md has tables of every
// class, argument, method, callback and file. For a new program, look at package trainer first:
// this is its loop.
package pytorchaccelerated
