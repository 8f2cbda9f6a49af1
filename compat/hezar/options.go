package hezar

import (
	"context"
	"io"
	"log/slog"
	"reflect"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Options are the optional arguments of Hezar's Trainer, and others that a Go program may want to
// set. The zero value means what Hezar does without them.
type Options[S, B any] struct {
	EvalDataset    data.Dataset[S]              // required unless DoEvaluate is false
	DataCollator   func(samples []S) (B, error) // nil: the model's Collate
	Preprocessor   Preprocessor                 // saved beside the model; may be nil
	MetricsHandler MetricsHandler               // nil: that of the task, with the metrics of the configuration
	Optimizer      optim.Builder                // nil: that of the configuration
	LRScheduler    lr.Schedule                  // nil: that of the configuration
	// instead of LRScheduler: a schedule that follows MetricForBestModel, once per epoch
	Adaptive lr.Adaptive

	ModelConfig   omegaconf.Map // model_config.yaml; nil: the model's HezarConfig, if it has one
	DatasetConfig omegaconf.Map // train/dataset_config.yaml; may be nil

	// Group is the group of processes that train together, made by dist.Init. Nil means this
	// process alone, which New refuses in a process that was started as one of several.
	Group *dist.Group

	Overrides Overrides[S, B]
	Rules     Rules // zero: correct behaviour everywhere

	// RunName is the name of this run's folder in LogsDir. Empty: date, time and host name.
	RunName string
	// Output receives the table and the progress. Nil means standard error; use io.Discard for
	// none.
	Output io.Writer
	// Warnings receives warnings about weights of InitWeightsFrom that were skipped or remain
	// random. Nil means standard error; use io.Discard for none.
	Warnings io.Writer
	// Logger receives what Hezar logs; may be nil.
	Logger *slog.Logger
	// Fetch downloads a repository from the Hub and returns its folder. Nil means package hub.
	Fetch func(ctx context.Context, repo string) (dir string, err error)
	// Push uploads a folder. Nil means package hub.
	Push func(ctx context.Context, repo, dir string, o PushOptions) error
}

// Overrides replace methods of the Trainer, as a subclass does in Python. Each gets the Trainer,
// whose method of the same name corresponds to super().
type Overrides[S, B any] struct {
	CreateTrainDataloader func(t *Trainer[S, B]) (*Dataloader[B], error)
	CreateEvalDataloader  func(t *Trainer[S, B], d data.Dataset[S]) (*Dataloader[B], error)
	PrepareInputBatch     func(t *Trainer[S, B], b B) (B, error)
	Forward               func(t *Trainer[S, B], b B) (engine.Outputs, error)
	ComputeLoss           func(t *Trainer[S, B], o engine.Outputs, b B) (torch.Tensor, error)
	TrainingStep          func(t *Trainer[S, B], b B) (loss torch.Tensor, err error)
	OptimizationStep      func(t *Trainer[S, B]) error
	EvaluationStep        func(t *Trainer[S, B], b B) (EvalOutputs, error)
	// InnerTrainingLoop must call that of the Trainer exactly once. The loss it returns is logged
	// as that of the epoch; a run resumed after the last batch of an epoch logs the running loss.
	InnerTrainingLoop  func(t *Trainer[S, B], ctx context.Context, epoch int) (loss float64, err error)
	Evaluate           func(t *Trainer[S, B], ctx context.Context, d data.Dataset[S]) (Logs, error)
	Log                func(t *Trainer[S, B], logs Logs, step int) error
	WriteToTensorboard func(t *Trainer[S, B], logs Logs, step int) error
	Save               func(t *Trainer[S, B], path string) error

	// AfterUpdate is called after each update, while the gradients still exist.
	AfterUpdate func(t *Trainer[S, B]) error
	// AfterSchedule is called after each step of the schedule, with the metric that an adaptive
	// schedule got, or nil for others.
	AfterSchedule func(t *Trainer[S, B], metric *float64) error
	// AfterEvalBatch is called with the numbers of each batch of an evaluation with
	// Rules.MeanOfBatches; otherwise batches have no numbers.
	AfterEvalBatch func(t *Trainer[S, B], numbers Logs)
	// AfterLoss is called after each change of the running loss, with the loss of the window.
	AfterLoss func(t *Trainer[S, B], window float64) error
}

// complete fills in the Trainer's own methods where there is no override.
func (o *Overrides[S, B]) complete() {
	type T = Trainer[S, B]
	setDefault(&o.CreateTrainDataloader, (*T).CreateTrainDataloader)
	setDefault(&o.CreateEvalDataloader, (*T).CreateEvalDataloader)
	setDefault(&o.PrepareInputBatch, (*T).PrepareInputBatch)
	setDefault(&o.Forward, (*T).Forward)
	setDefault(&o.ComputeLoss, (*T).ComputeLoss)
	setDefault(&o.TrainingStep, (*T).TrainingStep)
	setDefault(&o.OptimizationStep, (*T).OptimizationStep)
	setDefault(&o.EvaluationStep, (*T).EvaluationStep)
	setDefault(&o.InnerTrainingLoop, (*T).InnerTrainingLoop)
	setDefault(&o.Evaluate, (*T).Evaluate)
	setDefault(&o.Log, (*T).Log)
	setDefault(&o.WriteToTensorboard, (*T).WriteToTensorboard)
	setDefault(&o.Save, (*T).Save)
	setDefault(&o.AfterUpdate, func(*T) error { return nil })
	setDefault(&o.AfterSchedule, func(*T, *float64) error { return nil })
	setDefault(&o.AfterEvalBatch, func(*T, Logs) {})
	setDefault(&o.AfterLoss, func(*T, float64) error { return nil })
}

// setDefault sets a missing override to a method.
func setDefault[F any](override *F, method F) {
	if reflect.ValueOf(*override).IsNil() {
		*override = method
	}
}

// EvalOutputs is the result of an evaluation for one batch.
type EvalOutputs struct {
	Predictions torch.Tensor // logits, or the output of a generative model
	Labels      torch.Tensor
	Loss        torch.Tensor
	Rows        int
}
