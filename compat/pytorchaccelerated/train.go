package pytorchaccelerated

import (
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

// TrainOptions are the arguments of [Trainer.Train]. The zero value of a field means Python's
// default.
type TrainOptions[S, B any] struct {
	NumEpochs   int             // num_epochs; required, unless MaxNumTrainSteps is set
	EvalDataset data.Dataset[S] // evaluated after each epoch; nil: no evaluation

	PerDeviceBatchSize        int // zero: 8
	MaxNumTrainSteps          int // updates to train for, in place of NumEpochs; zero: NumEpochs decides
	GradientAccumulationSteps int // batches behind one update; zero: 1

	// GradientClipValue limits every element of the gradients to ±value; nil: no limit. At 0 no
	// gradient is left, as in PyTorch.
	GradientClipValue *float64

	// CreateSchedulerFn makes the schedule, which moves once per update. Nil: the rate stays.
	CreateSchedulerFn SchedulerFn

	TrainLoader LoaderOptions // train_dataloader_kwargs
	EvalLoader  LoaderOptions // eval_dataloader_kwargs

	KeepRunHistory bool                         // go on with the history of earlier runs: reset_run_history=False
	CollateFn      func(samples []S) (B, error) // makes a batch; nil: [Collate], for samples of type [Sample]
	ResumeFrom     string                       // the folder of a training state; implies KeepRunHistory
}

// EvaluateOptions are the arguments of [Trainer.Evaluate].
type EvaluateOptions[S, B any] struct {
	PerDeviceBatchSize int           // zero: 8
	Loader             LoaderOptions // dataloader_kwargs
	CollateFn          func(samples []S) (B, error)
}

// datasets are the arguments that methods need.
type datasets[S, B any] struct {
	train, eval     data.Dataset[S]
	collate         func([]S) (B, error)
	createScheduler SchedulerFn
}

// Train runs epochs of training, each followed by one of evaluation where there is a set for it. It
// may be called again: the model, the moments of the optimizer and the rate go on from where they
// are. A ctx that is cancelled ends the run when the update at hand is complete.
func (t *Trainer[S, B]) Train(ctx context.Context, dataset data.Dataset[S], o TrainOptions[S, B]) error {
	if err := t.checkTrain(dataset, &o); err != nil {
		return err
	}
	collate, err := collateOf[S, B](o.CollateFn)
	if err != nil {
		return err
	}
	t.sets = datasets[S, B]{dataset, o.EvalDataset, collate, o.CreateSchedulerFn}
	if !o.KeepRunHistory && o.ResumeFrom == "" {
		t.history.Reset()
	}
	return t.do(ctx, func() error {
		if err := t.prepareTraining(o); err != nil {
			return err
		}
		return t.methods.RunTraining(t)
	})
}

// Evaluate runs one evaluation epoch over a set and records its loss as "evaluation_loss". The run
// history is reset before.
func (t *Trainer[S, B]) Evaluate(ctx context.Context, dataset data.Dataset[S], o EvaluateOptions[S, B]) error {
	switch {
	case dataset == nil:
		return &OptionError{"dataset", "nil", "a data set"}
	case o.PerDeviceBatchSize < 0:
		return &OptionError{"PerDeviceBatchSize", fmt.Sprint(o.PerDeviceBatchSize), "at least 1, or 0 for 8"}
	case o.PerDeviceBatchSize == 0:
		o.PerDeviceBatchSize = 8
	}
	collate, err := collateOf[S, B](o.CollateFn)
	if err != nil {
		return err
	}
	t.sets = datasets[S, B]{eval: dataset, collate: collate}
	t.history.Reset()
	return t.do(ctx, func() error {
		if err := t.prepareEvaluation(o); err != nil {
			return err
		}
		return t.runEvaluation()
	})
}

// do runs f on one OS thread, and turns panics of tensors into errors.
func (t *Trainer[S, B]) do(ctx context.Context, f func() error) error {
	runtime.LockOSThread() // libtorch keeps its modes by thread
	defer runtime.UnlockOSThread()
	t.ctx = ctx
	defer func() {
		if t.prepared != nil {
			t.rate = t.prepared.Rate()
		}
		t.training, t.inWindow, t.pending = false, false, nil
		t.evalSliced = t.limitEval >= 0
		t.limitTrain, t.limitEval = -1, -1
	}()
	var err error
	panicked := torch.Try(func() { err = f() })
	return errors.Join(panicked, err)
}

func (t *Trainer[S, B]) checkTrain(dataset data.Dataset[S], o *TrainOptions[S, B]) error {
	if dataset == nil {
		return &OptionError{"dataset", "nil", "a data set"}
	}
	for _, c := range []struct {
		field string
		value *int
		zero  int
	}{
		{"NumEpochs", &o.NumEpochs, 0}, {"PerDeviceBatchSize", &o.PerDeviceBatchSize, 8},
		{"MaxNumTrainSteps", &o.MaxNumTrainSteps, 0}, {"GradientAccumulationSteps", &o.GradientAccumulationSteps, 1},
	} {
		if *c.value < 0 {
			return &OptionError{c.field, fmt.Sprint(*c.value), "a positive number"}
		}
		if *c.value == 0 {
			*c.value = c.zero
		}
	}
	if o.NumEpochs == 0 && o.MaxNumTrainSteps == 0 {
		return &OptionError{"NumEpochs", "0", "a positive number, or MaxNumTrainSteps in its place"}
	}
	if v := o.GradientClipValue; v != nil && !(*v >= 0) {
		return &OptionError{"GradientClipValue", fmt.Sprint(*v), "a number that is not negative, or nil for no limit"}
	}
	return nil
}

func collateOf[S, B any](collate func([]S) (B, error)) (func([]S) (B, error), error) {
	if collate != nil {
		return collate, nil
	}
	if own, ok := any(Collate).(func([]S) (B, error)); ok {
		return own, nil
	}
	return nil, &OptionError{"CollateFn", "nil", fmt.Sprintf("a function that makes a %s of %ss", reflect.TypeFor[B](),
		reflect.TypeFor[S]())}
}

// begin makes the Accelerator and seeds the generators, as both kinds of runs do.
func (t *Trainer[S, B]) begin() (err error) {
	if t.accelerator, err = t.methods.CreateAccelerator(t); err != nil {
		return err
	}
	if t.prepared != nil {
		t.rate = t.prepared.Rate()
	}
	seed := uint64(42)
	if t.options.Seed != nil {
		seed = *t.options.Seed
	}
	if err := accelerate.SetSeed(seed); err != nil {
		return err
	}
	if err := t.accelerator.PrepareModel(t.model); err != nil {
		return err
	}
	t.prepared = t.accelerator.PrepareOptimizer(t.optimizer, t.rate)
	if t.rules.KeepFromLastRun && t.evalSliced {
		return errors.New("pytorchaccelerated: the evaluation loader of the run before is limited by LimitBatches " +
			"and cannot be used again; set TrainOptions.EvalDataset")
	}
	t.place, t.start, t.now = place{}, nil, nil
	t.updates, t.resumed, t.evaluated, t.beforeEval = 0, false, false, nil
	return nil
}

func (t *Trainer[S, B]) prepareTraining(o TrainOptions[S, B]) (err error) {
	before := t.config
	t.forgetLoaders()
	if !t.rules.KeepFromLastRun {
		t.schedule = nil
	}
	t.trains = true
	if t.train, err = t.methods.CreateTrainDataloader(t, o.PerDeviceBatchSize, o.TrainLoader); err != nil {
		return err
	}
	if err := t.prepareEvalLoader(o.PerDeviceBatchSize, o.EvalLoader); err != nil {
		return err
	}
	if err := t.begin(); err != nil {
		t.config = before
		return err
	}
	if t.trainLen() == 0 && !t.rules.RunWithoutBatches {
		return &OptionError{"dataset", "a set without a whole batch", "at least one batch"}
	}
	if err := t.createRunConfig(o.PerDeviceBatchSize, o.NumEpochs, o.GradientAccumulationSteps, o.MaxNumTrainSteps,
		o.GradientClipValue); err != nil {
		return err
	}
	if err := t.makeSchedule(); err != nil {
		return err
	}
	for _, c := range t.callbacks {
		if p, ok := c.(interface{ prepareState(r *Run) error }); ok {
			if err := p.prepareState(t.Run); err != nil {
				return err
			}
		}
	}
	t.accelerator.RegisterForCheckpointing(&metadata{run: t.Run})
	if o.ResumeFrom != "" {
		if err := t.resumeFrom(o.ResumeFrom); err != nil {
			return err
		}
	}
	if t.rules.EpochsPerSession { // the epoch of the history counts
		t.start = &trainer.StartPosition{Epoch: t.history.CurrentEpoch() - 1}
	}
	return nil
}

// forgetLoaders takes the loaders of the run before away, and its configuration.
func (t *Trainer[S, B]) forgetLoaders() {
	before := t.config
	t.config, t.train = RunConfig{}, nil
	if !t.rules.KeepFromLastRun {
		t.eval = nil
		return
	}
	t.config.TrainLoaderOptions, t.config.EvalLoaderOptions = before.TrainLoaderOptions, before.EvalLoaderOptions
}

func (t *Trainer[S, B]) prepareEvaluation(o EvaluateOptions[S, B]) error {
	t.forgetLoaders()
	t.trains = false
	if err := t.prepareEvalLoader(o.PerDeviceBatchSize, o.Loader); err != nil {
		return err
	}
	if err := t.begin(); err != nil {
		return err
	}
	return t.createRunConfig(o.PerDeviceBatchSize, 1, 1, 0, nil)
}

func (t *Trainer[S, B]) prepareEvalLoader(batchSize int, o LoaderOptions) (err error) {
	if t.sets.eval == nil {
		return nil
	}
	t.evalSliced = false
	t.eval, err = t.methods.CreateEvalDataloader(t, batchSize, o)
	return err
}

// createRunConfig fixes the numbers of a run.
func (t *Trainer[S, B]) createRunConfig(batchSize, epochs, accumulation, maxSteps int, clip *float64) error {
	c := t.config
	c.NumEpochs, c.GradientAccumulationSteps, c.MaxNumTrainSteps, c.GradientClipValue = epochs, accumulation, maxSteps,
		clip
	c.NumProcesses = t.accelerator.NumProcesses()
	c.TrainPerDeviceBatchSize = batchSize
	if c.TrainLoaderOptions != nil {
		c.TrainPerDeviceBatchSize = c.TrainLoaderOptions.BatchSize
	}
	c.EvalPerDeviceBatchSize = c.TrainPerDeviceBatchSize
	if c.EvalLoaderOptions != nil {
		c.EvalPerDeviceBatchSize = c.EvalLoaderOptions.BatchSize
	}
	c.TrainTotalBatchSize = c.TrainPerDeviceBatchSize * c.NumProcesses * accumulation
	c.EvalTotalBatchSize = c.EvalPerDeviceBatchSize * c.NumProcesses
	if t.train != nil {
		batches := t.plannedBatches(t.train.Len())
		c.NumUpdateStepsPerEpoch = ceilDiv(batches*c.NumProcesses, accumulation)
		c.NumLocalUpdateStepsPerEpoch = ceilDiv(batches, accumulation)
	}
	switch {
	case maxSteps > 0 && c.NumUpdateStepsPerEpoch == 0:
		return &OptionError{"MaxNumTrainSteps", fmt.Sprint(maxSteps), "0, since an epoch of this training set has no " +
			"update"}
	case maxSteps > 0:
		c.NumEpochs = ceilDiv(maxSteps, c.NumUpdateStepsPerEpoch)
	case t.rules.LimitByEpoch:
		c.MaxNumTrainSteps = epochs*c.NumUpdateStepsPerEpoch + 1
	}
	c.IsLocalProcessZero, c.IsWorldProcessZero = true, true
	c.MixedPrecision = "no"
	if p := t.options.Precision; p != 0 {
		c.MixedPrecision = p.String()
	}
	c, err := t.methods.CreateRunConfig(t, c)
	if err == nil {
		t.config = c
	}
	return err
}

// plannedBatches is what schedules and counts take for the length of an epoch.
func (t *Trainer[S, B]) plannedBatches(n int) int {
	if limit := t.limitOfCallbacks(); limit > 0 && !t.rules.PlanIgnoresLimit {
		return min(n, limit)
	}
	return n
}

// limitOfCallbacks is the limit of LimitBatches; 0 where there is none.
func (t *Trainer[S, B]) limitOfCallbacks() (limit int) {
	for _, c := range t.callbacks {
		if l, ok := c.(*LimitBatches); ok && l.NumBatches > 0 && (limit == 0 || l.NumBatches < limit) {
			limit = l.NumBatches
		}
	}
	return limit
}

// trainLen is what the loop takes for the length of a training epoch.
func (t *Trainer[S, B]) trainLen() int {
	if t.rules.LimitIsLength && t.train != nil && t.limitTrain >= 0 {
		return t.limitTrain
	}
	return limited(t.train, t.limitTrain)
}

func (t *Trainer[S, B]) hasEval() bool { return t.eval != nil }

func (t *Trainer[S, B]) evalLen() int { return limited(t.eval, t.limitEval) }

func limited[B any](l Loader[B], limit int) int {
	switch {
	case l == nil:
		return 0
	case limit < 0:
		return l.Len()
	}
	return min(limit, l.Len())
}
