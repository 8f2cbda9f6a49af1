package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
)

// course is the raw loop of the Hugging Face course, with nothing but tensors, an optimizer and a
// schedule.
type course struct {
	spec  *spec.Spec
	args  loopArgs
	rec   *recorder
	model model
	opt   optim.Optimizer
	rates lr.Rate
	more  func(update int) error // what a move of the schedule does beside the rate; nil: nothing
	train *data.Loader[row, batch]
	valid *data.Loader[row, batch]
	sets  map[string]*rows

	updates, micro int
}

func replayCourse(ctx context.Context, s *spec.Spec) (*Run, error) {
	o := s.Args.Merge()
	c := &course{spec: s, args: readLoopArgs(o), rec: &recorder{where: "setup"}}
	if err := o.Done(); err != nil {
		return nil, err
	}
	if c.args.precision == "fp16" {
		return nil, spec.Unsupportedf("args.mixed_precision is fp16, which the course's loop does not have")
	}
	if err := noMore(s); err != nil {
		return nil, err
	}
	var err error
	if c.sets, err = readRows(s); err != nil {
		return nil, err
	}
	if err = c.setup(); err == nil {
		c.rec.where = "train"
		before := c.rec.mark()
		if err = c.run(ctx); err == nil {
			c.rec.phase(trace.Of("do", "train"), before)
		}
	}
	if aboutCase(err) {
		return nil, err
	}
	return &Run{Trace: c.rec.trace(err), final: finalTensors(moduleOf(c.model), c.opt)}, nil
}

func (c *course) setup() (err error) {
	a := c.args
	if c.model, err = build(c.spec); err != nil {
		return err
	}
	if a.seed != nil {
		torch.ManualSeed(*a.seed)
	}
	train, ok := c.sets["train"]
	if !ok {
		return fmt.Errorf("there is no training set")
	}
	options := data.LoaderOptions{BatchSize: a.batchSize, DropLast: a.dropLast, Workers: 1}
	if a.shuffle && !c.spec.Data.Iterable {
		options.Order = globalShuffle
	}
	if c.train, err = data.NewLoader(train, collate, options); err != nil {
		return err
	}
	if valid := c.sets["eval"]; valid != nil && valid.n > 0 {
		if c.valid, err = data.NewLoader(valid, collate, data.LoaderOptions{BatchSize: a.evalBatchSize,
			Workers: 1}); err != nil {
			return err
		}
	}
	if c.opt, err = a.buildOptimizer(c.model); err != nil {
		return err
	}
	total := a.trainingSteps
	if total == 0 {
		if c.spec.Data.Iterable {
			return errNoLength
		}
		total = a.epochs * c.train.Len()
	}
	if err = c.plan(total); err != nil {
		return err
	}
	c.rec.start(c.model)
	c.rec.paramGroups(c.opt)
	return nil
}

var errNoLength = fmt.Errorf("the training set is a stream, which has no length")

// plan fits the schedule to the run.
func (c *course) plan(total int) error {
	schedule, err := c.args.schedule.build()
	if err == errAdaptive { //nolint:errorlint // it is returned bare
		c.rates = func(int) float64 { return c.args.learningRate }
		c.more = func(update int) error {
			if update > 0 {
				return errAdaptive
			}
			return nil
		}
		return nil
	}
	if err == nil {
		err = lr.Validate(schedule, c.args.learningRate, total)
	}
	if err != nil {
		return err
	}
	c.rates = schedule.Plan(c.args.learningRate, total)
	var momentum lr.Rate
	if m, ok := schedule.(lr.MomentumSchedule); ok {
		momentum = m.PlanMomentum(total)
	}
	last := lr.StepLimit(schedule, total)
	c.more = func(update int) error {
		if last > 0 && update > last {
			return fmt.Errorf("the schedule is made for %d moves, and this is move %d", last, update)
		}
		if momentum == nil {
			return nil
		}
		return c.opt.(optim.MomentumSetter).SetMomentum(momentum(update)) // every optimizer of package optim is one
	}
	return c.more(0)
}

// forward runs a forward pass of the training, in the precision of the case.
func (c *course) forward(f func()) {
	if c.args.precision == "bf16" {
		amp.Autocast(torch.CPU, amp.BF16, f)
	} else {
		f()
	}
}

func (c *course) run(ctx context.Context) error {
	nn.SetTraining(c.model.module(), true)
	for epoch := range c.args.epochs {
		if c.args.evaluate != "" {
			nn.SetTraining(c.model.module(), true)
		}
		drawInt64() // the seed of the workers
		step := 0
		for b, err := range c.train.Epoch(ctx, epoch, 0) {
			if err == nil {
				failed := torch.Try(func() { err = c.step(b, epoch, step) })
				err = errors.Join(failed, err)
			}
			if err != nil {
				return err
			}
			step++
		}
		if c.args.evaluate == "epoch" {
			if err := c.evaluate(ctx, epoch+1); err != nil {
				return err
			}
		}
	}
	if c.args.evaluate == "end" {
		return c.evaluate(ctx, c.args.epochs)
	}
	return nil
}

// step is one micro-batch, and the update that it may end in.
func (c *course) step(b batch, epoch, step int) error {
	if err := takes(c.model, b); err != nil {
		return err
	}
	if !b.has("labels") {
		return fmt.Errorf("the training set has no labels")
	}
	a := c.args
	var failed error
	torch.Scope(func() {
		var loss torch.Tensor
		c.forward(func() { loss = forward(c.model, b, 0).loss })
		if a.accumulate > 1 {
			loss = loss.DivScalar(float64(a.accumulate))
		}
		loss.Backward()
		c.micro++
		if failed = applyInjections(a.inject, c.model, c.micro); failed == nil {
			c.rec.micro(b.index, loss.Item())
		}
	})
	if failed != nil {
		return failed
	}
	if (step+1)%a.accumulate != 0 {
		if c.spec.Data.Iterable {
			return errNoLength
		}
		if step+1 != c.train.Len() {
			return nil
		}
	}
	return c.update(epoch, step)
}

func (c *course) update(epoch, step int) error {
	a := c.args
	var norm *float64
	if a.clipNorm != nil {
		norm = new(optim.ClipGradNorm(nn.Params(c.model.module()), *a.clipNorm).Item())
	}
	if a.clipValue != nil {
		optim.ClipGradValue(nn.Params(c.model.module()), *a.clipValue)
	}
	rate := c.rates(c.updates)
	c.opt.Step(rate)
	if err := c.more(c.updates + 1); err != nil {
		return err
	}
	c.opt.ZeroGrad()
	c.updates++
	if c.spec.Data.Iterable {
		return errNoLength
	}
	rates := make([]float64, len(c.opt.Groups()))
	for i := range rates {
		rates[i] = rate
	}
	c.rec.update(c.updates, float64(epoch)+float64(step+1)/float64(c.train.Len()), norm, rates, c.model, false, nil)
	return nil
}

func (c *course) evaluate(ctx context.Context, epoch int) error {
	if c.valid == nil {
		nn.SetTraining(c.model.module(), false)
		return fmt.Errorf("an evaluation is asked for, but there is no evaluation set")
	}
	drawInt64()
	plain := func(f func()) { f() }
	return evaluate(ctx, c.spec, c.rec, c.model, c.valid.Epoch(ctx, 0, 0), plain, "step", c.updates,
		"epoch", epoch)
}
