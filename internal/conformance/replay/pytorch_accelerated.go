package replay

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strconv"

	pa "github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// paTrainer is a Trainer of pytorch-accelerated over the rows of a case.
type paTrainer = pa.Trainer[row, batch]

// paArgs are the arguments of Trainer and of its methods train and evaluate.
type paArgs struct {
	optimizer optim.Builder
	momentum  []float64 // what the recording finds in the parameter group: momentum, or the first beta
	train     pa.TrainOptions[row, batch]
	evaluate  bool
	timm      bool // TrainerWithTimmScheduler
}

// replayPytorchAccelerated replays what pytorch-accelerated's Trainer did, defects included.
func replayPytorchAccelerated(ctx context.Context, s *spec.Spec) (run *Run, err error) {
	limit := s.More.Int("limit_batches_env", 0)
	s.More.Any("final") // which tensors of the end were kept
	if err := s.More.Done(); err != nil {
		return nil, err
	}
	if err := s.Data.Options.Done(); err != nil {
		return nil, err
	}
	if s.Model.Kind != "mlp" {
		return nil, spec.Unsupportedf("model.kind %q with the trainer pytorch_accelerated", s.Model.Kind)
	}
	if s.Dir, err = filepath.Abs(s.Dir); err != nil {
		return nil, err
	}
	sets, err := readRows(s)
	if err != nil {
		return nil, err
	}
	leave, err := enterScratch()
	if err != nil {
		return nil, err
	}
	defer leave()
	p := &paCase{spec: s, sets: sets, limit: limit, rec: newPARecorder()}
	var last error
	for _, phase := range s.Phases {
		if last, err = p.phase(ctx, phase); err != nil {
			return nil, err
		}
	}
	left, err := p.files(".")
	if err != nil {
		return nil, err
	}
	return p.finish(last, left), nil
}

// paCase is a case while it is replayed.
type paCase struct {
	spec  *spec.Spec
	sets  map[string]*rows
	limit int
	rec   *paRecorder

	model   model
	trainer *paTrainer
	args    paArgs
	setup   paCallbacks
}

// phase runs one phase. failed is the refusal of the run, err a case that cannot be replayed.
func (p *paCase) phase(ctx context.Context, phase spec.Phase) (failed, err error) {
	fresh := phase.Options.Bool("new_trainer", phase.Do == "train")
	if err := phase.Options.Done(); err != nil {
		return nil, err
	}
	if p.args, err = p.readArgs(p.spec.PhaseArgs(phase)); err != nil {
		return nil, err
	}
	before := p.rec.mark()
	if p.trainer == nil || fresh {
		if failed, err = p.make(); err != nil {
			return nil, err
		}
	}
	if failed == nil {
		failed = p.do(ctx, phase.Do)
	}
	if aboutCase(failed) {
		return nil, failed
	}
	info := trace.Of("do", phase.Do, "error", textOrNil(failed))
	if p.trainer != nil {
		more, err := p.describe()
		if err != nil {
			return nil, err
		}
		info = append(info, more...)
	}
	p.rec.phase(info, before)
	return failed, nil
}

func textOrNil(err error) any {
	if err == nil {
		return nil
	}
	return err.Error()
}

// buildModel makes the model with its initial weights, from the file or by the formula.
func (p *paCase) buildModel() (m model, err error) {
	if p.spec.Init.Formula == nil {
		return build(p.spec)
	}
	if failed := torch.Try(func() { m, err = construct(p.spec.Model) }); failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	return m, formulaInit(m.module(), p.spec.Init.Formula.Merge())
}

// make makes model and Trainer anew.
func (p *paCase) make() (failed, err error) {
	p.trainer = nil
	torch.ManualSeed(0)
	if p.model, err = p.buildModel(); err != nil {
		return nil, err
	}
	p.rec.model = p.model
	if p.setup, err = p.callbacks(); err != nil {
		return nil, err
	}
	if p.limit > 0 {
		before, had := os.LookupEnv(pa.LimitBatchesVariable)
		if err := os.Setenv(pa.LimitBatchesVariable, strconv.Itoa(p.limit)); err != nil {
			return nil, err
		}
		defer func() {
			if _ = os.Unsetenv(pa.LimitBatchesVariable); had {
				_ = os.Setenv(pa.LimitBatchesVariable, before)
			}
		}()
	}
	history := &paHistory{rec: p.rec}
	t, failed := pa.New(p.model.module(), nil, p.args.optimizer, pa.Options[row, batch]{
		Callbacks: append([]any{p.rec}, append(pa.DefaultCallbacks(), p.setup.list...)...), History: history,
		Methods: p.methods(), Rules: pa.Exact, Timm: p.args.timm, Output: discard{}, Progress: discard{},
	})
	if failed != nil {
		return failed, nil
	}
	p.trainer, history.run = t, t.Run
	return nil, nil
}

type discard struct{}

func (discard) Write(text []byte) (int, error) { return len(text), nil }

// do trains or evaluates.
func (p *paCase) do(ctx context.Context, what string) error {
	valid := p.sets["eval"]
	switch {
	case what == "predict":
		return spec.Unsupportedf("a phase that predicts with the trainer pytorch_accelerated")
	case what == "evaluate":
		if valid == nil {
			valid = &rows{} // of no samples, as the peer's is then
		}
		return p.trainer.Evaluate(ctx, valid, pa.EvaluateOptions[row,
			batch]{PerDeviceBatchSize: p.args.train.PerDeviceBatchSize, CollateFn: collate})
	}
	o := p.args.train
	if valid != nil && valid.n > 0 && p.args.evaluate {
		o.EvalDataset = valid
	}
	return p.trainer.Train(ctx, data.Dataset[row](p.sets["train"]), o)
}

func (p *paCase) readArgs(o *spec.Object) (a paArgs, err error) {
	switch kind := o.String("trainer", ""); kind {
	case "", "timm":
		a.timm = kind != ""
	default:
		return a, spec.Unsupportedf("trainer %q with the trainer pytorch_accelerated", kind)
	}
	a.evaluate = o.Bool("evaluate", true)
	a.train = pa.TrainOptions[row, batch]{PerDeviceBatchSize: 8, GradientAccumulationSteps: 1, CollateFn: collate}
	o.Fill(&a.train, "reset_run_history:!KeepRunHistory")
	if a.train.TrainLoader, err = loaderOptions(o.Object("train_dataloader_kwargs")); err != nil {
		return a, err
	}
	if a.train.EvalLoader, err = loaderOptions(o.Object("eval_dataloader_kwargs")); err != nil {
		return a, err
	}
	if a.train.CreateSchedulerFn, err = schedulerFn(o.Object("scheduler")); err != nil {
		return a, err
	}
	if err := a.readOptimizer(o.Object("optimizer")); err != nil {
		return a, err
	}
	return a, o.Done()
}

func loaderOptions(o *spec.Object) (l pa.LoaderOptions, err error) {
	l.NumWorkers = 1
	if o == nil {
		return l, nil
	}
	o.Int("num_workers", 0) // of no influence on order or random numbers
	o.Fill(&l)
	return l, o.Done()
}

// readOptimizer reads {"name": ..., "lr": ..., further keyword arguments}.
func (a *paArgs) readOptimizer(o *spec.Object) (err error) {
	if o == nil {
		a.optimizer, a.momentum = optim.SGD{LR: 0.1, Implementation: optim.ForLoop}, []float64{0}
		return nil
	}
	k := o.Merge()
	name := k.String("name", "sgd")
	switch name {
	case "sgd", "rmsprop":
		a.momentum = []float64{k.Float("momentum", 0)}
	case "adam", "adamw":
		beta := struct{ Beta1, Beta2 float64 }{Beta1: 0.9}
		k.Fill(&beta, "betas:Beta1,Beta2")
		a.momentum = []float64{beta.Beta1}
	default:
		return spec.Unsupportedf("the optimizer %q with the trainer pytorch_accelerated", name)
	}
	kwargs := maps.Clone(k.Map()) // the specification stays as it is
	delete(kwargs, "name")
	a.optimizer, err = recorded.Optimizer(name, spec.NewObject("args.optimizer", kwargs))
	return err
}

// schedulerFn makes create_scheduler_fn.
func schedulerFn(o *spec.Object) (pa.SchedulerFn, error) {
	if o == nil {
		return nil, nil
	}
	switch name := o.String("name", ""); name {
	case "cosine_lr":
		var c pa.CosineLR
		o.Fill(&c)
		return c.Create, o.Done()
	case "wsd":
		var w pa.WSD
		o.Fill(&w, "use_inverse_sqrt_decay:!InverseProportion", "is_continuation_from_checkpoint:Continuation")
		return w.Create, o.Done()
	case "one_cycle":
		fn := pa.Partial("OneCycleLR", map[string]any{"max_lr": o.Float("max_lr", 0), "epochs": pa.NumEpochs,
			"steps_per_epoch": pa.NumUpdateStepsPerEpoch})
		return fn, o.Done()
	default:
		kwargs := maps.Clone(o.Map())
		delete(kwargs, "name")
		return pa.Partial(name, kwargs), o.Err()
	}
}
