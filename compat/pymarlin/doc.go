// Package pymarlin is PyMarlin's Trainer in Go: a module says how to make optimizers, loaders and
// steps, and a trainer runs it. Everything that PyMarlin 0.3.6 computes is reproduced to the last
// bit.
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
// TrainBatchSize is the number of samples per update. As many as GPUBatchSizeLimit allows go
// through the model at once, see [TrainStepBatchSize]. If that is not all, a window of several
// batches makes the update, and each loss is divided by the number of batches. ExampleTrainer_order
// prints the order of events.
//
// With Options.Group and the backend "ddp" or "ddp-amp" several processes train one model, see
// [DDPTrainerBackend].
//
// docs/from-pymarlin.md has tables of every class, argument and method, of what a checkpoint holds
// and of what differs from PyMarlin. For a new program, look at package trainer first: this is its
// loop under semantics.PyMarlin.
package pymarlin
