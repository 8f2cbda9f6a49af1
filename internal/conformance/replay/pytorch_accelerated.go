package replay

import (
	"cmp"
	"context"
	"io"
	"os"
	"strconv"

	pa "github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// paTrainer is a Trainer of pytorch-accelerated with the rows of a case.
type paTrainer = pa.Trainer[row, batch]

// paArgs are the arguments of Trainer and of its methods train and evaluate.
type paArgs struct {
	optimizer optim.Builder
	momentum  []float64 // what is recorded of the parameter group: momentum, or the first beta
	train     pa.TrainOptions[row, batch]
	evaluate  bool
	timm      bool // use TrainerWithTimmScheduler
}

// paCase replays a case, and is also the recording's callback, the first in the list.
type paCase struct {
	*session
	paEvents
	limit int

	model     *model
	trainer   *paTrainer
	args      paArgs
	callbacks []any // of the case

	last        trace.Object // the current or last evaluation
	open        bool         // last has not ended
	initialRate any
	seen        int // number of losses at the last update
}

// replayPytorchAccelerated replays what pytorch-accelerated's Trainer did, including its defects.
func replayPytorchAccelerated(ctx context.Context, c *session) *Run {
	p := &paCase{session: c, limit: c.spec.More.Int("limit_batches_env", 0)}
	p.see = func(run *pa.Run, name string) error { return p.event(run, name) }
	c.spec.More.Any("final") // says which final tensors were stored
	spec.Check(c.spec.More.Done())
	spec.Check(c.spec.Data.Options.Done())
	if c.spec.Model.Kind != "mlp" {
		spec.Refusef("model.kind %q with the trainer pytorch_accelerated", c.spec.Model.Kind)
	}
	var last error
	for _, phase := range c.spec.Phases {
		last = p.do(ctx, phase)
	}
	return p.finish(last, p.files("."))
}

// do runs one phase, and returns the error of a run that was refused.
func (p *paCase) do(ctx context.Context, phase spec.Phase) error {
	fresh := phase.Options.Bool("new_trainer", phase.Do == "train")
	spec.Check(phase.Options.Done())
	p.args = readPAArgs(p.spec.PhaseArgs(phase))
	var refused error
	if p.trainer == nil || fresh {
		refused = p.make()
	}
	if refused == nil {
		refused = refusal(func() { spec.Check(p.carryOut(ctx, phase.Do)) })
	}
	info := trace.Of("do", phase.Do, "error", textOrNil(refused))
	if p.trainer != nil {
		p.describe(info)
	}
	p.phase(info)
	return refused
}

func textOrNil(err error) any {
	if err == nil {
		return nil
	}
	return err.Error()
}

// make makes a new model and Trainer, and returns the Trainer's error.
func (p *paCase) make() error {
	p.trainer = nil
	torch.ManualSeed(0)
	p.model = build(p.spec)
	p.callbacks = p.makeCallbacks()
	if p.limit > 0 {
		before, had := os.LookupEnv(pa.LimitBatchesVariable)
		spec.Check(os.Setenv(pa.LimitBatchesVariable, strconv.Itoa(p.limit)))
		defer func() {
			if _ = os.Unsetenv(pa.LimitBatchesVariable); had {
				_ = os.Setenv(pa.LimitBatchesVariable, before)
			}
		}()
	}
	history := &paHistory{of: p}
	t, refused := pa.New(p.model.module, nil, p.args.optimizer, pa.Options[row, batch]{
		Callbacks: append([]any{p}, append(pa.DefaultCallbacks(), p.callbacks...)...), History: history,
		Methods: p.methods(), Rules: pa.Exact, Timm: p.args.timm, Output: io.Discard, Progress: io.Discard,
	})
	if refused == nil {
		p.trainer, history.run = t, t.Run
	}
	return refused
}

// carryOut trains or evaluates.
func (p *paCase) carryOut(ctx context.Context, what string) error {
	valid := p.sets["eval"]
	switch what {
	case "predict":
		return spec.Unsupportedf("a phase that predicts with the trainer pytorch_accelerated")
	case "evaluate":
		return p.trainer.Evaluate(ctx, cmp.Or(valid, &rows{}), // an empty set, as in the recording
			pa.EvaluateOptions[row, batch]{PerDeviceBatchSize: p.args.train.PerDeviceBatchSize, CollateFn: collate})
	}
	o := p.args.train
	if valid != nil && valid.n > 0 && p.args.evaluate {
		o.EvalDataset = valid
	}
	return p.trainer.Train(ctx, data.Dataset[row](p.sets["train"]), o)
}

func readPAArgs(o *spec.Object) (a paArgs) {
	kind := o.String("trainer", "")
	if a.timm = kind == "timm"; kind != "" && !a.timm {
		spec.Refusef("trainer %q with the trainer pytorch_accelerated", kind)
	}
	a.evaluate = o.Bool("evaluate", true)
	a.train = pa.TrainOptions[row, batch]{PerDeviceBatchSize: 8, GradientAccumulationSteps: 1, CollateFn: collate}
	a.train.TrainLoader = loaderOptions(o.Object("train_dataloader_kwargs"))
	a.train.EvalLoader = loaderOptions(o.Object("eval_dataloader_kwargs"))
	a.train.CreateSchedulerFn = schedulerFn(o.Object("scheduler"))
	a.readOptimizer(o.Object("optimizer"))
	o.Fill(&a.train, "reset_run_history:!KeepRunHistory")
	spec.Check(o.Done())
	return a
}

func loaderOptions(o *spec.Object) pa.LoaderOptions {
	l := pa.LoaderOptions{NumWorkers: 1}
	if o != nil {
		o.Int("num_workers", 0) // no influence on order or random numbers
		o.Fill(&l)
		spec.Check(o.Done())
	}
	return l
}

// readOptimizer reads {"name": ..., "lr": ..., further keyword arguments}.
func (a *paArgs) readOptimizer(o *spec.Object) {
	if o == nil {
		a.optimizer, a.momentum = optim.SGD{LR: 0.1, Implementation: optim.ForLoop}, []float64{0}
		return
	}
	k := o.Merge()
	name := k.String("name", "sgd")
	switch name {
	case "sgd", "rmsprop":
		a.momentum = []float64{k.Float("momentum", 0)}
	case "adam", "adamw":
		beta := struct{ Beta1, Beta2 float64 }{Beta1: 0.9}
		k.Take(&beta, "betas:Beta1,Beta2")
		a.momentum = []float64{beta.Beta1}
	default:
		spec.Refusef("the optimizer %q with the trainer pytorch_accelerated", name)
	}
	a.optimizer = spec.Must(recorded.Optimizer(name, spec.NewObject("args.optimizer", without(k.Map(), "name"))))
}

// schedulerFn returns the create_scheduler_fn of the case.
func schedulerFn(o *spec.Object) (fn pa.SchedulerFn) {
	if o == nil {
		return nil
	}
	switch name := o.String("name", ""); name {
	case "cosine_lr":
		var c pa.CosineLR
		o.Fill(&c)
		fn = c.Create
	case "wsd":
		var w pa.WSD
		o.Fill(&w, "use_inverse_sqrt_decay:!InverseProportion", "is_continuation_from_checkpoint:Continuation")
		fn = w.Create
	case "one_cycle":
		fn = pa.Partial("OneCycleLR", map[string]any{"max_lr": o.Float("max_lr", 0), "epochs": pa.NumEpochs,
			"steps_per_epoch": pa.NumUpdateStepsPerEpoch})
	default:
		fn = pa.Partial(name, without(o.Map(), "name"))
	}
	spec.Check(o.Done())
	return fn
}
