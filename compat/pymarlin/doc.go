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
//	func (c *Classifier) OptimizersSchedulers(steps, epochs int) ([]*pymarlin.Optimizer, []pymarlin.Scheduler, error) {
//		opt, err := pymarlin.NewOptimizer(optim.AdamW{LR: 1e-3}, nn.Params(c))
//		...
//		schedule, err := pymarlin.NewScheduler(opt, lr.OneCycleLR{MaxLR: 1e-2}, steps*epochs)
//		return []*pymarlin.Optimizer{opt}, []pymarlin.Scheduler{schedule}, err
//	}
//	func (c *Classifier) TrainStep(step int, b Batch, device torch.Device) (pymarlin.Outputs, error) {
//		return pymarlin.Tensors(functional.CrossEntropy(c.forward(b.X), b.Y)), nil
//	}
//	...
//	t, err := pymarlin.New(classifier, pymarlin.TrainerArguments{Epochs: 3, TrainBatchSize: 32}, nil)
//	err = t.Train(ctx)
//
// docs/from-pymarlin.md has a table of every class, argument and method. The loop is that of
// package trainer under semantics.PyMarlin. Who begins in Go will be happier with that package
// itself, which also evaluates and saves in the middle of an epoch.
//
// # Batches and windows
//
// TrainBatchSize samples are behind an update. As many as GPUBatchSizeLimit allows go through the
// model at once, see [TrainStepBatchSize]; the rest is gathered over a window of batches, each of
// whose losses is divided by their number. Windows run over the ends of epochs, and batches that
// are left at the end of the run train nothing.
//
// # Order
//
// An epoch is OnBeginTrainEpoch; per batch TrainStep, backward, OnEndBackward; per window one norm
// over all parameters that clips them, then a step of each optimizer, then the schedulers,
// OnEndTrainStep, and the stats that are due; then the validation sets, each with OnEndValEpoch;
// OnEndTrainEpoch; and the checkpoint. ExampleTrainer_order prints it.
//
// # Checkpoints
//
// The [DefaultCheckpointer] writes the files that PyMarlin writes, and reads PyMarlin's: a run goes
// on in either. They also hold the generators of random numbers, the stats that have not been
// written and the gradients of an unfinished window, so that a run goes on bit for bit; PyMarlin
// reads over these. A run that is cancelled finishes its window and writes a checkpoint, from which
// it goes on inside the epoch. A file is whole or not there, so a run that is killed goes on too.
//
// # What differs from PyMarlin
//
// What is recorded of PyMarlin is the same; what would hurt is not. A checkpoint that is named and
// missing is an error and no fresh start. The newest checkpoint is that with the highest number in
// its name, and never the file of the final model. A damaged one is passed over for the one before.
// The state of loss scaling is saved. TensorBoard's folder is not emptied. Mixed precision in
// float16 on a CPU is refused. Several processes are refused.
package pymarlin
