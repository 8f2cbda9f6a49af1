package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/examples/internal/program"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

func train(ctx context.Context, o options) error {
	begin := time.Now()
	t, err := openTask(ctx, o)
	if err == nil {
		err = t.checkSizes()
	}
	if err != nil {
		return err
	}
	o = o.withDefaults()
	var c classifier
	if o.model == "" {
		c, err = freshClassifier(o, t)
	} else {
		c, err = pretrainedClassifier(ctx, o, t.labels)
	}
	if err != nil {
		return err
	}
	if c, err = c.truncated(o.maxLength); err != nil {
		return err
	}
	if o.paddingFree {
		if err := c.leavePaddingOut(); err != nil {
			return run.Usage(fmt.Errorf("-padding-free: %w", err))
		}
	}
	device, err := torch.ParseDevice(o.device)
	if err != nil {
		return run.Usage(err)
	}
	step, err := classify.NewStep(c.model, classify.TaskOptions{Metrics: t.metrics()},
		engine.Options{Optimizer: o.optimizer(), Device: device})
	if err != nil {
		return err
	}
	samples, err := data.Collect(ctx, t.train, c.sample)
	if err != nil {
		return err
	}
	valid, err := data.Collect(ctx, t.valid, c.sample)
	if err != nil {
		return err
	}
	options := o.trainer(samples)
	options.ProcessingClass = tokenizerOf(c)
	fit, err := trainer.New(step, options)
	if err != nil {
		return err
	}
	result, err := fit.Fit(ctx, c.masked(samples, o), data.Slice[bert.Sample](valid))
	if err != nil {
		return program.Explain(err, o.out)
	}
	nn.To(c.model, torch.TensorOptions{Device: torch.CPU}) // the report runs the model on the CPU
	return report(o, c, t, valid, result, time.Since(begin))
}

// withDefaults fills in unset hyperparameters: the Hugging Face course's for a pretrained model,
// others for a small model trained from scratch.
func (o options) withDefaults() options {
	fresh := o.model == ""
	set := func(v *int, ifFresh, ifNot int) {
		if *v == 0 && fresh {
			*v = ifFresh
		} else if *v == 0 {
			*v = ifNot
		}
	}
	set(&o.batch, 16, 8)
	set(&o.maxLength, 128, 0)
	set(&o.logEvery, 50, 500)
	switch {
	case o.steps > 0 || o.epochs > 0:
	case o.quick && fresh:
		o.epochs = 3
	case o.quick:
		o.steps = 20
	case fresh:
		o.epochs = 6
	default:
		o.epochs = 3
	}
	switch {
	case o.rate > 0:
	case fresh:
		o.rate = 1e-3
	default:
		o.rate = 5e-5
	}
	return o
}

// optimizer is the course's, AdamW without weight decay; a model trained from scratch gets some.
func (o options) optimizer() optim.Builder {
	decay := 0.0
	if o.model == "" {
		decay = 0.01
	}
	return optim.AdamW{LR: o.rate, WeightDecay: &decay}
}

func (o options) trainer(samples []bert.Sample) trainer.Options {
	t := trainer.Options{
		OutputDir: o.out, Epochs: o.epochs, MaxSteps: o.steps, BatchSize: o.batch, EvalBatchSize: 8, Seed: o.seed,
		Schedule: lr.Linear{},
		Eval:     trainer.Every(1, trainer.Epoch), Save: trainer.Every(1, trainer.Epoch), Log: trainer.Every(o.logEvery,
			trainer.Update),
		KeepCheckpoints: 1, Overwrite: o.overwrite,
	}
	if o.steps > 0 {
		every := trainer.Every(max(1, o.steps/3), trainer.Update)
		t.Eval, t.Save = every, every
	}
	if o.model == "" { // texts of about the same length need little padding, and a higher rate needs a warmup
		t.Order = data.GroupedByLength{Lengths: lengths(samples), BatchSize: o.batch,
			Random: data.Shuffled{Seed: o.seed}}
		t.Schedule = lr.Linear{Warmup: 0.1}
		t.EvalBatchSize = 32
	}
	if o.semantics == "huggingface" {
		t.Semantics = semantics.HuggingFace
	}
	if o.resume {
		t.ResumeFrom = trainer.Latest
	}
	return t
}

func lengths(samples []bert.Sample) []int {
	n := make([]int, len(samples))
	for i, s := range samples {
		n[i] = len(s.InputIDs)
	}
	return n
}

// masked replaces random tokens of each text by [MASK], different ones in every epoch, so that a
// model trained from scratch does not memorize a few thousand texts.
func (c classifier) masked(list []bert.Sample, o options) data.Dataset[bert.Sample] {
	samples := data.Slice[bert.Sample](list)
	mask, found := c.tokenizer.TokenToID("[MASK]")
	if o.model != "" || o.dropWords == 0 || !found {
		return samples
	}
	return data.Augment(samples, o.seed, func(r *rand.Rand, s bert.Sample) (bert.Sample, error) {
		ids := append([]int64(nil), s.InputIDs...)
		for i := 1; i < len(ids)-1; i++ { // the first and the last are [CLS] and [SEP]
			if r.Float64() < o.dropWords {
				ids[i] = mask
			}
		}
		s.InputIDs = ids
		return s, nil
	})
}

// metrics returns the metrics of every evaluation: accuracy, F1 (of class 1 if there are two
// classes, otherwise the mean over all) and Matthews' correlation, which is CoLA's metric.
func (t task) metrics() []metrics.Metric[int] {
	f1 := &metrics.F1{}
	if len(t.labels) > 2 {
		f1.Average = metrics.Macro()
	}
	return []metrics.Metric[int]{&metrics.Accuracy[int]{}, f1, &metrics.Matthews{}}
}
