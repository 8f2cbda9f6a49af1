package pytorchaccelerated

import (
	"errors"
	"reflect"

	"github.com/gotrainer/gotrainer/accelerate"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
)

// Methods are what a subclass of Trainer overrides in Python. A nil field means the method of
// [Trainer] with the same name; a function in a field may call that method, as with super():
//
//	Methods: pytorchaccelerated.Methods[Sample, Batch]{
//		EvalEpochEnd: func(t *pytorchaccelerated.Trainer[Sample, Batch]) error {
//			t.History().UpdateMetric("accuracy", accuracy.Result())
//			return t.EvalEpochEnd()
//		},
//	}
type Methods[S, B any] struct {
	// Setup.
	CreateTrainDataloader     func(t *Trainer[S, B], batchSize int, o LoaderOptions) (Loader[B], error)
	CreateEvalDataloader      func(t *Trainer[S, B], batchSize int, o LoaderOptions) (Loader[B], error)
	DefaultTrainLoaderOptions func(t *Trainer[S, B], batchSize int) LoaderOptions // get_default_train_dl_kwargs
	DefaultEvalLoaderOptions  func(t *Trainer[S, B], batchSize int) LoaderOptions // get_default_eval_dl_kwargs
	CreateScheduler           func(t *Trainer[S, B], p Placeholders) (lr.Schedule, error)
	CreateAccelerator         func(t *Trainer[S, B]) (*accelerate.Accelerator, error) // _create_accelerator
	// _create_run_config, given the Trainer's own choice
	CreateRunConfig func(t *Trainer[S, B], c RunConfig) (RunConfig, error)

	// Training.
	TrainingRunStart        func(t *Trainer[S, B]) error
	TrainEpochStart         func(t *Trainer[S, B]) error
	CalculateTrainBatchLoss func(t *Trainer[S, B], batch B) (BatchOutput, error)
	BackwardStep            func(t *Trainer[S, B], loss torch.Tensor) error
	ClipGradients           func(t *Trainer[S, B]) error // _clip_gradients
	OptimizerStep           func(t *Trainer[S, B]) error
	SchedulerStep           func(t *Trainer[S, B]) error
	OptimizerZeroGrad       func(t *Trainer[S, B]) error
	TrainEpochEnd           func(t *Trainer[S, B]) error
	TrainingRunEpochEnd     func(t *Trainer[S, B]) error
	TrainingRunEnd          func(t *Trainer[S, B]) error

	// Evaluation.
	EvalEpochStart         func(t *Trainer[S, B]) error
	CalculateEvalBatchLoss func(t *Trainer[S, B], batch B) (BatchOutput, error)
	EvalEpochEnd           func(t *Trainer[S, B]) error
	EvaluationRunStart     func(t *Trainer[S, B]) error
	EvaluationRunEnd       func(t *Trainer[S, B]) error

	// The loops themselves. A function that replaces one is responsible for its events. Epochs are
	// started only by the Trainer's RunTraining: a RunTraining that does not call it has none.
	RunTraining   func(t *Trainer[S, B]) error                             // _run_training
	RunTrainEpoch func(t *Trainer[S, B]) (reachedMaxSteps bool, err error) // _run_train_epoch
	RunEvalEpoch  func(t *Trainer[S, B], e EvalEpoch) error                // _run_eval_epoch
}

// withDefaults fills in the Trainer's method of the same name where a field is nil.
func (m Methods[S, B]) withDefaults() Methods[S, B] {
	own := reflect.TypeFor[*Trainer[S, B]]()
	for field, f := range reflect.ValueOf(&m).Elem().Fields() {
		if method, ok := own.MethodByName(field.Name); ok && f.IsNil() {
			f.Set(method.Func)
		}
	}
	if m.CreateRunConfig == nil {
		m.CreateRunConfig = func(_ *Trainer[S, B], c RunConfig) (RunConfig, error) { return c, nil }
	}
	return m
}

// notify calls a method and then the callbacks for its event.
func notify[S, B, H any](t *Trainer[S, B], method func(*Trainer[S, B]) error, hook func(H, *Run) error) error {
	if err := method(t); err != nil {
		return err
	}
	return event(t.Run, hook)
}

// DefaultTrainLoaderOptions returns the default options of the training loader: shuffled.
func (t *Trainer[S, B]) DefaultTrainLoaderOptions(batchSize int) LoaderOptions {
	return LoaderOptions{BatchSize: batchSize, Shuffle: new(true)}
}

// DefaultEvalLoaderOptions returns the default options of the evaluation loader: in order.
func (t *Trainer[S, B]) DefaultEvalLoaderOptions(batchSize int) LoaderOptions {
	return LoaderOptions{BatchSize: batchSize, Shuffle: new(false)}
}

// CreateTrainDataloader makes the loader of the training set.
func (t *Trainer[S, B]) CreateTrainDataloader(batchSize int, o LoaderOptions) (Loader[B], error) {
	o = o.over(t.methods.DefaultTrainLoaderOptions(t, batchSize))
	t.config.TrainLoaderOptions = &o
	return newLoader(t.trainSet, t.args.CollateFn, o, "TrainLoader")
}

// CreateEvalDataloader makes the loader of the evaluation set.
func (t *Trainer[S, B]) CreateEvalDataloader(batchSize int, o LoaderOptions) (Loader[B], error) {
	o = o.over(t.methods.DefaultEvalLoaderOptions(t, batchSize))
	t.config.EvalLoaderOptions = &o
	return newLoader(t.args.EvalDataset, t.args.CollateFn, o, "EvalLoader")
}

// CreateScheduler makes the schedule with TrainOptions.CreateSchedulerFn, or returns nil without
// it.
func (t *Trainer[S, B]) CreateScheduler(p Placeholders) (lr.Schedule, error) {
	if t.args.CreateSchedulerFn == nil {
		return nil, nil
	}
	return t.args.CreateSchedulerFn(p)
}

// CreateAccelerator makes the Accelerator of a run.
func (t *Trainer[S, B]) CreateAccelerator() (*accelerate.Accelerator, error) {
	return accelerate.New(accelerate.Options{Device: t.options.Device, MixedPrecision: t.options.Precision,
		Group: t.options.Group})
}

// TrainEpochStart puts the model into training mode.
func (t *Trainer[S, B]) TrainEpochStart() error {
	nn.SetTraining(t.model, true)
	if t.schedule != nil && t.options.Timm && t.rules.TimmCountsBatches {
		t.schedule.timm = t.history.CurrentEpoch() * t.TrainDataloaderLen()
	}
	return nil
}

// CalculateTrainBatchLoss runs the forward pass on a batch and computes its loss.
func (t *Trainer[S, B]) CalculateTrainBatchLoss(batch B) (BatchOutput, error) {
	pair, ok := any(batch).(Pair)
	layer, forward := t.model.(nn.Layer)
	if !ok || !forward || t.loss == nil {
		return BatchOutput{}, errors.New("pytorchaccelerated: this Trainer has no loss function, model or batches " +
			"that its own CalculateTrainBatchLoss understands; it was made for those of Methods")
	}
	xb, yb := pair.Tensors(t.Device())
	var outputs torch.Tensor
	t.accelerator.Autocast(func() { outputs = layer.Forward(xb) })
	if d := outputs.DType(); d == torch.BFloat16 || d == torch.Float16 {
		outputs = outputs.ToDType(torch.Float32) // Accelerate converts outputs to float32
	}
	return BatchOutput{Loss: t.loss(outputs, yb), ModelOutputs: []torch.Tensor{outputs}, BatchSize: int(yb.Size(0))},
		nil
}

// CalculateEvalBatchLoss is the Trainer's own CalculateTrainBatchLoss without gradients.
func (t *Trainer[S, B]) CalculateEvalBatchLoss(batch B) (out BatchOutput, err error) {
	torch.NoGrad(func() { out, err = t.CalculateTrainBatchLoss(batch) })
	return out, err
}

// BackwardStep runs the backward pass of a loss, which has already been divided for accumulation.
func (t *Trainer[S, B]) BackwardStep(loss torch.Tensor) error {
	t.accelerator.Backward(loss)
	return nil
}

// ClipGradients limits every element of the gradients to ±TrainOptions.GradientClipValue.
func (t *Trainer[S, B]) ClipGradients() error {
	return t.accelerator.ClipGradValue(nn.Params(t.model), *t.config.GradientClipValue)
}

// OptimizerStep makes an update.
func (t *Trainer[S, B]) OptimizerStep() error { return t.prepared.Step() }

// SchedulerStep steps the schedule, if there is one.
func (t *Trainer[S, B]) SchedulerStep() error {
	if t.schedule == nil {
		return nil
	}
	if t.options.Timm && t.rules.TimmCountsBatches {
		return t.schedule.stepTimmUpdate()
	}
	return t.schedule.step()
}

// OptimizerZeroGrad removes the gradients.
func (t *Trainer[S, B]) OptimizerZeroGrad() error {
	t.prepared.ZeroGrad()
	return nil
}

// EvalEpochStart puts the model into evaluation mode.
func (t *Trainer[S, B]) EvalEpochStart() error {
	nn.SetTraining(t.model, false)
	return nil
}

// EvalEpochEnd is called at the end of an evaluation epoch.
func (t *Trainer[S, B]) EvalEpochEnd() error {
	if t.schedule != nil && t.options.Timm && t.rules.TimmCountsBatches {
		return t.schedule.stepTimmEpoch(t.history.CurrentEpoch() + 1)
	}
	return nil
}

// The methods that do nothing unless Methods replaces them; the hooks say when each is called. The
// model has no wrappers for TrainingRunEnd to remove.
func (t *Trainer[S, B]) TrainingRunStart() error    { return nil }
func (t *Trainer[S, B]) TrainEpochEnd() error       { return nil }
func (t *Trainer[S, B]) TrainingRunEpochEnd() error { return nil }
func (t *Trainer[S, B]) TrainingRunEnd() error      { return nil }
func (t *Trainer[S, B]) EvaluationRunStart() error  { return nil }
func (t *Trainer[S, B]) EvaluationRunEnd() error    { return nil }
