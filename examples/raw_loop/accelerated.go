package main

import (
	"context"

	"github.com/gotrainer/gotrainer/accelerate"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
)

// accelerated is the loop of bare.go with Accelerate's changes; the comments at the right are the Python of the lines that differ. The accelerator knows the
// device, the precision and which processes train together: today the one at hand, so Gather returns what it is given.
func accelerated(ctx context.Context, o options, p *parts) error {
	acc, err := accelerate.New(accelerate.Options{MixedPrecision: o.precision}) //                      accelerator = Accelerator(mixed_precision="bf16")
	if err != nil {
		return err
	}
	model := p.model
	if err := acc.PrepareModel(model); err != nil { //                                                  train_dl, eval_dl, model, optimizer, lr_scheduler =
		return err //                                                                                       accelerator.prepare(...)
	}
	trainLoader, err := accelerate.PrepareLoader(acc, p.train, p.collate, accelerate.LoaderOptions{BatchSize: 8, Shuffle: true})
	if err != nil {
		return err
	}
	evalLoader, err := accelerate.PrepareLoader(acc, p.valid, p.collate, accelerate.LoaderOptions{BatchSize: 8})
	if err != nil {
		return err
	}
	optimizer := acc.PrepareOptimizer(optim.NewAdamW(nn.Params(model), optim.AdamW{Implementation: optim.ForLoop}), o.rate)
	steps := o.epochs * trainLoader.Len()
	scheduler, err := acc.PrepareSchedule(optimizer, lr.Linear{}, steps)
	if err != nil {
		return err
	}
	header(o, p, trainLoader.Len(), steps)

	nn.SetTraining(model, true)
	for range o.epochs {
		for batch, err := range trainLoader.Batches(ctx) {
			if err != nil {
				return err
			}
			err = acc.Accumulate(func() error { //                                                      with accelerator.accumulate(model):
				var loss torch.Tensor
				acc.Autocast(func() { loss = p.loss(model, batch) }) // in Python model itself does this
				acc.Backward(loss)                                   //                                     accelerator.backward(loss)
				if err := optimizer.Step(); err != nil {
					return err
				}
				if err := scheduler.Step(); err != nil {
					return err
				}
				optimizer.ZeroGrad()
				progress(scheduler.Moves(), loss)
				return nil
			})
			if err != nil {
				return err
			}
		}
	}

	scores := newScores()
	nn.SetTraining(model, false)
	for batch, err := range evalLoader.Batches(ctx) {
		if err != nil {
			return err
		}
		if err := torch.Try(func() {
			torch.Scope(func() {
				torch.NoGrad(func() {
					var logits torch.Tensor
					acc.Autocast(func() { logits = p.forward(model, batch) })
					predictions := acc.Gather(logits.ArgMax(-1, false)) //                              predictions, references = accelerator.gather_for_metrics(...)
					scores.add(torch.Values[int64](predictions[0]), batch.Labels)
				})
			})
		}); err != nil {
			return err
		}
	}
	scores.print()
	return nil
}
