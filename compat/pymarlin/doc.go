// Package pymarlin is PyMarlin's Trainer in Go: a module says how to make optimizers, loaders and
// steps, a trainer runs it, and everything that PyMarlin 0.3.6 computes comes out the same, to the
// last bit.
//
//	type Classifier struct {
//		pymarlin.StatsHolder
//		Hidden *nn.Linear `module:"hidden"`
//		Out    *nn.Linear `module:"out"`
//	}
//
//	func (c *Classifier) TrainStep(step int, b Batch, device torch.Device) (pymarlin.Outputs, error) {
//		return pymarlin.Tensors(functional.CrossEntropy(c.forward(b.X), b.Y)), nil
//	}
//	... // and the other methods of ModuleInterface
//	t, err := pymarlin.New(classifier, pymarlin.TrainerArguments{Epochs: 3, TrainBatchSize: 32}, nil)
//	err = t.Train(ctx)
//
// TrainBatchSize samples are behind an update. As many as GPUBatchSizeLimit allows go through the
// model at once, see [TrainStepBatchSize]; a window of batches, each of whose losses is divided by
// their number, gathers the rest. ExampleTrainer_order prints the order of events.
//
// With Options.Group and the backend "ddp" or "ddp-amp" several processes train one model, see
// [DDPTrainerBackend].
//
// docs/from-pymarlin.md has a table of every class, argument and method, of what a checkpoint holds
// and of what differs from PyMarlin. New programs should look at package trainer first, whose loop
// this is under semantics.PyMarlin.
package pymarlin
