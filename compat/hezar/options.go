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

// Options are the optional arguments of Hezar's Trainer, and what a Go program may want to change
// besides. The zero value means what Hezar does without them.
type Options[S, B any] struct {
	EvalDataset    data.Dataset[S]              // needed unless DoEvaluate is false
	DataCollator   func(samples []S) (B, error) // nil: the model's Collate
	Preprocessor   Preprocessor                 // saved beside the model; nil: nothing is
	MetricsHandler MetricsHandler               // nil: that of the task, with the configuration's metrics
	Optimizer      optim.Builder                // nil: what the configuration names
	LRScheduler    lr.Schedule                  // nil: what the configuration names
	// instead of LRScheduler: a schedule that follows MetricForBestModel, once per epoch
	Adaptive lr.Adaptive

	ModelConfig   omegaconf.Map // model_config.yaml; nil: the model's HezarConfig, if it has one
	DatasetConfig omegaconf.Map // train/dataset_config.yaml; nil: none is written

	// Group is the processes that train together, made by dist.Init. Nil: this one alone, which New
	// refuses in a process that was started as one of several.
	Group *dist.Group

	Overrides Overrides[S, B]
	Rules     Rules // zero: the right thing everywhere

	// RunName is the folder of this run's logs in LogsDir. Empty: date, time and host name.
	RunName string
	// Output is where table and progress go. Nil: standard error. io.Discard: nowhere.
	Output io.Writer
	// Warnings is told of weights of InitWeightsFrom that were left out or stay random. Nil:
	// standard error. io.Discard: nowhere.
	Warnings io.Writer
	// Logger is told what Hezar logs. Nil: nobody.
	Logger *slog.Logger
	// Fetch brings a repository of the Hub here and returns its folder. Nil: package hub does.
	Fetch func(ctx context.Context, repo string) (dir string, err error)
	// Push uploads a folder. Nil: package hub does.
	Push func(ctx context.Context, repo, dir string, o PushOptions) error
}

// Overrides take the place of methods of the Trainer, as a subclass does in Python. Each is given
// the Trainer, whose method of the same name is what super() is there.
type Overrides[S, B any] struct {
	CreateTrainDataloader func(t *Trainer[S, B]) (*Dataloader[B], error)
	CreateEvalDataloader  func(t *Trainer[S, B], d data.Dataset[S]) (*Dataloader[B], error)
	PrepareInputBatch     func(t *Trainer[S, B], b B) (B, error)
	Forward               func(t *Trainer[S, B], b B) (engine.Outputs, error)
	ComputeLoss           func(t *Trainer[S, B], o engine.Outputs, b B) (torch.Tensor, error)
	TrainingStep          func(t *Trainer[S, B], b B) (loss torch.Tensor, err error)
	OptimizationStep      func(t *Trainer[S, B]) error
	EvaluationStep        func(t *Trainer[S, B], b B) (EvalOutputs, error)
	// InnerTrainingLoop must call that of the Trainer, once. The loss that it returns is the one of
	// the epoch in the log; a run that is resumed behind the last batch of an epoch logs the
	// running loss.
	InnerTrainingLoop  func(t *Trainer[S, B], ctx context.Context, epoch int) (loss float64, err error)
	Evaluate           func(t *Trainer[S, B], ctx context.Context, d data.Dataset[S]) (Logs, error)
	Log                func(t *Trainer[S, B], logs Logs, step int) error
	WriteToTensorboard func(t *Trainer[S, B], logs Logs, step int) error
	Save               func(t *Trainer[S, B], path string) error

	// AfterUpdate is told each update, while the gradients are still there.
	AfterUpdate func(t *Trainer[S, B]) error
	// AfterSchedule is told each move of the schedule, and the metric that an adaptive one was
	// shown; nil for others.
	AfterSchedule func(t *Trainer[S, B], metric *float64) error
	// AfterEvalBatch is told the numbers of each batch of an evaluation under Rules.MeanOfBatches;
	// otherwise a batch has none of its own.
	AfterEvalBatch func(t *Trainer[S, B], numbers Logs)
	// AfterLoss is told each change of the running loss, and the loss of the window.
	AfterLoss func(t *Trainer[S, B], window float64) error
}

// complete puts the Trainer's own methods where nothing overrides them.
func (o *Overrides[S, B]) complete() {
	type T = Trainer[S, B]
	otherwise(&o.CreateTrainDataloader, (*T).CreateTrainDataloader)
	otherwise(&o.CreateEvalDataloader, (*T).CreateEvalDataloader)
	otherwise(&o.PrepareInputBatch, (*T).PrepareInputBatch)
	otherwise(&o.Forward, (*T).Forward)
	otherwise(&o.ComputeLoss, (*T).ComputeLoss)
	otherwise(&o.TrainingStep, (*T).TrainingStep)
	otherwise(&o.OptimizationStep, (*T).OptimizationStep)
	otherwise(&o.EvaluationStep, (*T).EvaluationStep)
	otherwise(&o.InnerTrainingLoop, (*T).InnerTrainingLoop)
	otherwise(&o.Evaluate, (*T).Evaluate)
	otherwise(&o.Log, (*T).Log)
	otherwise(&o.WriteToTensorboard, (*T).WriteToTensorboard)
	otherwise(&o.Save, (*T).Save)
	otherwise(&o.AfterUpdate, func(*T) error { return nil })
	otherwise(&o.AfterSchedule, func(*T, *float64) error { return nil })
	otherwise(&o.AfterEvalBatch, func(*T, Logs) {})
	otherwise(&o.AfterLoss, func(*T, float64) error { return nil })
}

// otherwise fills in what to call where there is no override.
func otherwise[F any](override *F, method F) {
	if reflect.ValueOf(*override).IsNil() {
		*override = method
	}
}

// EvalOutputs is what an evaluation learns of a batch.
type EvalOutputs struct {
	Predictions torch.Tensor // logits, or what a generative model has generated
	Labels      torch.Tensor
	Loss        torch.Tensor
	Rows        int
}
