package pytorchaccelerated

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"

	"github.com/gotrainer/gotrainer/accelerate"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// TrainOptions are the arguments of [Trainer.Train]. Zero means Python's default.
type TrainOptions[S, B any] struct {
	NumEpochs   int             // num_epochs; required, unless MaxNumTrainSteps is set
	EvalDataset data.Dataset[S] // evaluated after each epoch; nil: no evaluation

	PerDeviceBatchSize        int // zero: 8
	MaxNumTrainSteps          int // number of updates, instead of NumEpochs; zero: use NumEpochs
	GradientAccumulationSteps int // batches per update; zero: 1

	// GradientClipValue limits every element of the gradients to ±value; nil: no limit. A value of
	// 0 sets all gradients to zero, as in PyTorch.
	GradientClipValue *float64

	// CreateSchedulerFn makes the schedule, which is stepped once per update. Nil means a constant
	// rate.
	CreateSchedulerFn SchedulerFn

	TrainLoader LoaderOptions // train_dataloader_kwargs
	EvalLoader  LoaderOptions // eval_dataloader_kwargs

	KeepRunHistory bool                         // keep the history of earlier runs: reset_run_history=False
	CollateFn      func(samples []S) (B, error) // makes a batch; nil: [Collate], for samples of type [Sample]
	ResumeFrom     string                       // the folder of a training state; implies KeepRunHistory
}

// EvaluateOptions are the arguments of [Trainer.Evaluate].
type EvaluateOptions[S, B any] struct {
	PerDeviceBatchSize int           // zero: 8
	Loader             LoaderOptions // dataloader_kwargs
	CollateFn          func(samples []S) (B, error)
}

// Train runs epochs of training, each followed by an evaluation if there is a set for it. It may
// be called again: the model, the optimizer's moments and the rate continue from their current
// state. If ctx is cancelled, the run ends when the current update is complete.
func (t *Trainer[S, B]) Train(ctx context.Context, dataset data.Dataset[S], o TrainOptions[S, B]) error {
	const positive = "a positive number"
	clip := *cmp.Or(o.GradientClipValue, new(0.0))
	if err := cmp.Or(refuse(dataset == nil, "dataset", "nil", "a data set"),
		refuse(o.NumEpochs < 0, "NumEpochs", o.NumEpochs, positive),
		refuse(o.PerDeviceBatchSize < 0, "PerDeviceBatchSize", o.PerDeviceBatchSize, positive),
		refuse(o.MaxNumTrainSteps < 0, "MaxNumTrainSteps", o.MaxNumTrainSteps, positive),
		refuse(o.GradientAccumulationSteps < 0, "GradientAccumulationSteps", o.GradientAccumulationSteps, positive),
		refuse(o.NumEpochs == 0 && o.MaxNumTrainSteps == 0, "NumEpochs", 0, positive+", or MaxNumTrainSteps in its place"),
		refuse(!(clip >= 0), "GradientClipValue", clip, "a number that is not negative, or nil for no limit"),
	); err != nil {
		return err
	}
	return t.execute(ctx, dataset, o, func() error { return t.methods.RunTraining(t) })
}

// Evaluate resets the history, runs an evaluation epoch and records its loss as "evaluation_loss".
func (t *Trainer[S, B]) Evaluate(ctx context.Context, dataset data.Dataset[S], o EvaluateOptions[S, B]) error {
	err := cmp.Or(refuse(dataset == nil, "dataset", "nil", "a data set"), refuse(o.PerDeviceBatchSize < 0,
		"PerDeviceBatchSize", o.PerDeviceBatchSize, "at least 1, or 0 for 8"))
	if err != nil {
		return err
	}
	return t.execute(ctx, nil, TrainOptions[S, B]{NumEpochs: 1, EvalDataset: dataset,
		PerDeviceBatchSize: o.PerDeviceBatchSize, EvalLoader: o.Loader, CollateFn: o.CollateFn}, t.runEvaluation)
}

// execute prepares a training run, or an evaluation if there is no training set, and runs it on one
// OS thread. It returns panics of tensor operations as errors.
func (t *Trainer[S, B]) execute(ctx context.Context, dataset data.Dataset[S], o TrainOptions[S, B],
	run func() error) (err error) {
	if o.CollateFn == nil {
		own, ok := any(Collate).(func([]S) (B, error))
		if !ok {
			return &OptionError{"CollateFn", "nil", fmt.Sprintf("a function that makes a %s of %ss", reflect.TypeFor[B](),
				reflect.TypeFor[S]())}
		}
		o.CollateFn = own
	}
	o.PerDeviceBatchSize = cmp.Or(o.PerDeviceBatchSize, 8)
	o.GradientAccumulationSteps = cmp.Or(o.GradientAccumulationSteps, 1)
	t.ctx, t.trainSet, t.args, t.trains = ctx, dataset, o, dataset != nil
	if !o.KeepRunHistory && o.ResumeFrom == "" {
		t.history.Reset()
	}
	runtime.LockOSThread() // libtorch keeps its modes per thread
	defer runtime.UnlockOSThread()
	defer func() {
		t.training, t.inWindow, t.inEvent, t.pending = false, false, false, nil
		t.evalSliced = t.limitEval >= 0
		t.limitTrain, t.limitEval = -1, -1
	}()
	panicked := torch.Try(func() {
		if err = t.prepare(); err == nil {
			err = run()
		}
	})
	return errors.Join(panicked, err)
}

// prepare makes the loaders, the Accelerator, the configuration and the schedule, or resumes a run.
func (t *Trainer[S, B]) prepare() (err error) {
	o, before := &t.args, t.config
	t.config, t.train = RunConfig{}, nil
	if t.rules.KeepFromLastRun {
		t.config.TrainLoaderOptions, t.config.EvalLoaderOptions = before.TrainLoaderOptions, before.EvalLoaderOptions
	} else if t.eval = nil; t.trains {
		t.schedule = nil
	}
	if t.trains {
		if t.train, err = t.methods.CreateTrainDataloader(t, o.PerDeviceBatchSize, o.TrainLoader); err != nil {
			return err
		}
	}
	if o.EvalDataset != nil {
		t.evalSliced = false
		if t.eval, err = t.methods.CreateEvalDataloader(t, o.PerDeviceBatchSize, o.EvalLoader); err != nil {
			return err
		}
	}
	if err := t.begin(); err != nil {
		t.config = before
		return err
	}
	if err := refuse(t.trains && t.TrainDataloaderLen() == 0 && !t.rules.RunWithoutBatches, "dataset",
		"a set without a whole batch", "at least one batch"); err != nil {
		return err
	}
	if err := t.createRunConfig(); err != nil || !t.trains {
		return err
	}
	if err := t.makeSchedule(); err != nil {
		return err
	}
	if ema := callback[*ModelEMA](t.Run); ema != nil {
		if err := ema.prepareState(t.Run); err != nil {
			return err
		}
	}
	t.accelerator.RegisterForCheckpointing((*metadata)(t.Run))
	if o.ResumeFrom != "" {
		if err := t.resumeFrom(o.ResumeFrom); err != nil {
			return err
		}
	}
	if t.rules.EpochsPerSession { // the history says which epoch it is
		t.start = &trainer.StartPosition{Epoch: t.history.CurrentEpoch() - 1}
	}
	return nil
}

// begin creates the Accelerator and seeds the generators.
func (t *Trainer[S, B]) begin() (err error) {
	if t.accelerator, err = t.methods.CreateAccelerator(t); err != nil {
		return err
	}
	seed := *cmp.Or(t.options.Seed, new(uint64(42))) + uint64(t.group().Rank()) // device_specific
	if err := accelerate.SetSeed(seed); err != nil {
		return err
	}
	if err := t.accelerator.PrepareModel(t.model); err != nil {
		return err
	}
	t.prepared = t.accelerator.PrepareOptimizer(t.optimizer, t.LearningRate())
	if t.rules.KeepFromLastRun && t.evalSliced {
		return errors.New("pytorchaccelerated: the evaluation loader of the run before is limited by LimitBatches " +
			"and cannot be used again; set TrainOptions.EvalDataset")
	}
	if err := t.shareLoaders(); err != nil {
		return err
	}
	t.place, t.start, t.now = place{}, nil, nil
	t.updates, t.resumed, t.evaluated, t.beforeEval = 0, false, false, nil
	return nil
}

// createRunConfig computes the configuration of a run.
func (t *Trainer[S, B]) createRunConfig() (err error) {
	c, o := t.config, &t.args
	c.NumEpochs, c.GradientAccumulationSteps = o.NumEpochs, o.GradientAccumulationSteps
	c.MaxNumTrainSteps, c.GradientClipValue = o.MaxNumTrainSteps, o.GradientClipValue
	g := t.group()
	c.NumProcesses, c.IsDistributed = g.World(), g.World() > 1
	c.IsLocalProcessZero, c.IsWorldProcessZero = g.LocalRank() == 0, g.Main()
	c.MixedPrecision = "no"
	if p := t.options.Precision; p != 0 {
		c.MixedPrecision = p.String()
	}
	c.TrainPerDeviceBatchSize = o.PerDeviceBatchSize
	if c.TrainLoaderOptions != nil {
		c.TrainPerDeviceBatchSize = c.TrainLoaderOptions.BatchSize
	}
	c.EvalPerDeviceBatchSize = c.TrainPerDeviceBatchSize
	if c.EvalLoaderOptions != nil {
		c.EvalPerDeviceBatchSize = c.EvalLoaderOptions.BatchSize
	}
	c.TrainTotalBatchSize = c.TrainPerDeviceBatchSize * c.NumProcesses * c.GradientAccumulationSteps
	c.EvalTotalBatchSize = c.EvalPerDeviceBatchSize * c.NumProcesses
	if t.train != nil {
		batches := t.plannedBatches(t.train.Len())
		c.NumUpdateStepsPerEpoch = ceilDiv(batches*c.NumProcesses, c.GradientAccumulationSteps)
		c.NumLocalUpdateStepsPerEpoch = ceilDiv(batches, c.GradientAccumulationSteps)
	}
	switch steps := o.MaxNumTrainSteps; {
	case steps > 0 && c.NumUpdateStepsPerEpoch == 0:
		return refuse(true, "MaxNumTrainSteps", steps, "0, since an epoch of this training set has no update")
	case steps > 0:
		c.NumEpochs = ceilDiv(steps, t.countedSteps(c))
	case t.rules.LimitByEpoch:
		c.MaxNumTrainSteps = c.NumEpochs*c.NumUpdateStepsPerEpoch + 1
	}
	if c, err = t.methods.CreateRunConfig(t, c); err != nil {
		return err
	}
	t.config = c
	return t.checkEvalBatchSize()
}

// countedSteps returns how many updates an epoch counts towards MaxNumTrainSteps.
func (t *Trainer[S, B]) countedSteps(c RunConfig) int {
	if t.rules.LimitByEpoch {
		return c.NumUpdateStepsPerEpoch
	}
	return c.NumLocalUpdateStepsPerEpoch
}

// plannedBatches returns the length of an epoch for schedules and counts.
func (t *Trainer[S, B]) plannedBatches(n int) int {
	if limit := t.limitOfCallbacks(); limit > 0 && !t.rules.PlanIgnoresLimit {
		return min(n, limit)
	}
	return n
}

// limitOfCallbacks returns the limit of LimitBatches, or 0 if there is none.
func (r *Run) limitOfCallbacks() int {
	if l := callback[*LimitBatches](r); l != nil {
		return max(0, l.NumBatches)
	}
	return 0
}
