package main

import (
	"context"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/progress"
	"github.com/gotrainer/gotrainer/torch"
)

// bare is the course's loop. The comments contain its Python code.
func bare(ctx context.Context, o options, p *parts) error {
	model := p.model
	// train_dataloader = DataLoader(train, shuffle=True, batch_size=8, collate_fn=data_collator)
	trainLoader, err := data.NewLoader(p.train, p.collate, data.LoaderOptions{
		BatchSize: 8, Order: data.OrderFunc(shuffle)})
	if err != nil {
		return err
	}
	// eval_dataloader = DataLoader(validation, batch_size=8, ...)
	evalLoader, err := data.NewLoader(p.valid, p.collate, data.LoaderOptions{BatchSize: 8})
	if err != nil {
		return err
	}
	// device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
	device, err := torch.ParseDevice(o.device)
	if err != nil {
		return err
	}
	nn.To(model, torch.TensorOptions{Device: device}) // model.to(device)
	params := nn.Params(model)
	// optimizer = AdamW(model.parameters(), lr=5e-5)
	optimizer := optim.NewAdamW(params, optim.AdamW{Implementation: optim.ForLoop})
	// num_training_steps = num_epochs * len(train_dataloader)
	steps := o.epochs * trainLoader.Len()
	// lr_scheduler = get_scheduler("linear", optimizer, 0, num_training_steps)
	rate := lr.Linear{}.Plan(o.rate, steps)
	header(o, p, trainLoader.Len(), steps)
	bar := progress.New(steps, progress.Options{}) // progress_bar = tqdm(range(num_training_steps))
	defer bar.Close()

	nn.SetTraining(model, true)   // model.train()
	for epoch := range o.epochs { // for epoch in range(num_epochs):
		for batch, err := range trainLoader.Epoch(ctx, epoch, 0) { // for batch in train_dataloader:
			if err != nil {
				return err
			}
			if err := torch.Try(func() { // tensor operations panic on errors; Try returns them
				torch.Scope(func() { // tensors created in here are freed at its end
					// batch = {k: v.to(device) for k, v in batch.items()}
					loss := p.loss(model, batch, device)      // outputs = model(**batch); loss = outputs.loss
					loss.Backward()                           // loss.backward()
					optimizer.Step(rate(optimizer.Updates())) // optimizer.step(); lr_scheduler.step()
					optimizer.ZeroGrad()                      // optimizer.zero_grad()
					report(bar, optimizer.Updates(), loss)    // progress_bar.update(1)
				})
			}); err != nil {
				return err
			}
		}
	}

	bar.Close()
	scores := newScores()
	nn.SetTraining(model, false)                          // model.eval()
	for batch, err := range evalLoader.Epoch(ctx, 0, 0) { // for batch in eval_dataloader:
		if err != nil {
			return err
		}
		if err := torch.Try(func() {
			torch.Scope(func() {
				torch.NoGrad(func() { // with torch.no_grad():
					logits := p.forward(model, batch, device) // outputs = model(**batch)
					// metric.add_batch(predictions=..., references=...)
					scores.add(torch.Values[int64](logits.ArgMax(-1, false)), batch.Labels)
				})
			})
		}); err != nil {
			return err
		}
	}
	scores.print() // metric.compute()
	return nil
}
