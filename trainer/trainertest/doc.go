// Package trainertest helps to test what has to do with a training loop, without tensors and in
// microseconds.
//
// [Step] computes nothing and records what the loop asks of it; its losses are a function of what
// it was given, so two runs that should be equal can be compared to the last bit:
//
//	step := new(trainertest.Step)
//	t, err := trainer.New(step, trainer.Options{Accumulate: 2, BatchSize: 1, Epochs: 1, Progress: io.Discard})
//	_, err = t.Fit(ctx, trainertest.Samples(3), nil)
//	fmt.Println(step.Trace()) // train(0/2) train(2/2) update(5e-05) train(1) update(2.5e-05)
//
// [TestStep] checks that a Step does what the loop relies on, [TestCallback] that every method of a
// callback is called. Run them for every Step and every callback that you write.
package trainertest
