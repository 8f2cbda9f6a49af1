package main

import (
	"context"
	"io"
	"os"

	"github.com/gotrainer/gotrainer/accelerate"
	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/progress"
	"github.com/gotrainer/gotrainer/torch"
)

// accelerated is the loop of bare.go with Accelerate's changes, a translation of raw_loop.py. The
// comments contain the Python code of the lines that differ. The accelerator knows the device, the
// precision and which processes train together: started directly the program is one process, and
//
//	gotrainer launch -n 2 ./raw_loop -accelerate
//
// trains with two, each on its part of every epoch.
func accelerated(ctx context.Context, o options, p *parts) error {
	group, err := dist.Init(ctx, dist.Options{})
	if err != nil {
		return err
	}
	// all processes have already waited for each other
	defer func() { _ = group.Close() }()
	// accelerator = Accelerator(mixed_precision="bf16")
	settings, err := accelerate.Environment(o.device == "cpu")
	if err != nil {
		return err
	}
	if o.device != "auto" {
		if settings.Device, err = torch.ParseDevice(o.device); err != nil {
			return err
		}
	}
	settings.Group = group
	if o.precision != amp.FP32 {
		settings.MixedPrecision = o.precision
	}
	acc, err := accelerate.New(settings)
	if err != nil {
		return err
	}
	model := p.model
	// train_dl, eval_dl, model, optimizer, lr_scheduler = accelerator.prepare(...)
	if err := acc.PrepareModel(model); err != nil {
		return err
	}
	trainLoader, err := accelerate.PrepareLoader(acc, p.train, p.collate, accelerate.LoaderOptions{BatchSize: 8,
		Shuffle: true})
	if err != nil {
		return err
	}
	evalLoader, err := accelerate.PrepareLoader(acc, p.valid, p.collate, accelerate.LoaderOptions{BatchSize: 8})
	if err != nil {
		return err
	}
	optimizer := acc.PrepareOptimizer(optim.NewAdamW(nn.Params(model), optim.AdamW{Implementation: optim.ForLoop}),
		o.rate)
	batches := (len(p.train) + 7) / 8 // over all processes: the prepared schedule steps once for each
	steps := o.epochs * batches
	scheduler, err := acc.PrepareSchedule(optimizer, lr.Linear{}, steps)
	if err != nil {
		return err
	}
	shown := progress.Options{Out: io.Discard}
	if acc.IsMainProcess() {
		header(o, p, batches, steps)
		shown.Out = os.Stderr
	}
	bar := progress.New(steps, shown)
	defer bar.Close()

	nn.SetTraining(model, true)
	for range o.epochs {
		for batch, err := range trainLoader.Batches(ctx) {
			if err != nil {
				return err
			}
			err = acc.Accumulate(func() error { // with accelerator.accumulate(model):
				var loss torch.Tensor
				acc.Autocast(func() { loss = p.loss(model, batch, acc.Device()) }) // in Python model itself does this
				acc.Backward(loss)                                                 // accelerator.backward(loss)
				if err := optimizer.Step(); err != nil {
					return err
				}
				if err := scheduler.Step(); err != nil {
					return err
				}
				optimizer.ZeroGrad()
				if acc.IsMainProcess() {
					report(bar, optimizer.Optimizer().Updates(), loss)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}

	bar.Close()
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
					acc.Autocast(func() { logits = p.forward(model, batch, acc.Device()) })
					// predictions, references = accelerator.gather_for_metrics(...)
					all := acc.GatherForMetrics(logits.ArgMax(-1, false), torch.From(batch.Labels))
					scores.add(torch.Values[int64](all[0]), torch.Values[int64](all[1]))
				})
			})
		}); err != nil {
			return err
		}
	}
	if acc.IsMainProcess() {
		scores.print()
	}
	return acc.WaitForEveryone()
}
