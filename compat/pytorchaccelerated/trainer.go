package pytorchaccelerated

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// LimitBatchesVariable is the environment variable that limits the batches of every Trainer made
// while it is set: New adds a [LimitBatches] before the callbacks. "none" means no limit.
const LimitBatchesVariable = "PT_ACC_LIMIT_BATCHES"

// LossFunc compares outputs of the model with targets, like functional.CrossEntropy.
type LossFunc func(outputs, targets torch.Tensor) torch.Tensor

// Options configures [New]. Zero: a Trainer with the default callbacks on the CPU in float32.
type Options[S, B any] struct {
	Callbacks []any          // in the order in which they are called; nil: [DefaultCallbacks]. One of each type.
	Events    []reflect.Type // the program's own hooks for [CallEvent]: reflect.TypeFor[BatchAugmented]()
	History   RunHistory     // run_history; nil: an [InMemoryRunHistory]
	Methods   Methods[S, B]  // what a subclass overrides
	// modules besides the model, such as that of a loss, for MoveModulesToDevice
	Modules []any
	// parameter groups of the optimizer; nil: one group of all trainable parameters of the model
	Groups    []optim.Group
	Device    torch.Device  // zero: the CPU
	Precision amp.Precision // mixed_precision of Accelerate; zero: float32
	// the random numbers of every run start from it plus the process's rank; nil: 42
	Seed *uint64
	// the group of processes that train together, made by dist.Init; nil: this one alone, which
	// New refuses in a process that was started as one of several
	Group    *dist.Group
	Timm     bool      // TrainerWithTimmScheduler
	Rules    Rules     // which defects of pytorch-accelerated to reproduce; zero: none. See [Exact].
	Output   io.Writer // where Print writes; nil: standard output
	Progress io.Writer // where ProgressBar draws; nil: standard error
}

// Trainer trains models on batches of type B, which are made of samples of type S.
type Trainer[S, B any] struct {
	*Run // what callbacks see; its methods are the Trainer's too

	options Options[S, B]
	methods Methods[S, B] // with all fields set
	loss    LossFunc

	train Loader[B] // nil in an evaluation run
	eval  Loader[B] // nil without evaluation set

	// The arguments of the current Train or Evaluate, for hooks that evaluate.
	ctx      context.Context
	trainSet data.Dataset[S] // nil in an evaluation run
	args     TrainOptions[S, B]

	trainBatches func() error // runs the batches of the current epoch; nil outside an epoch
}

// New makes a Trainer of a model, a loss function and an optimizer. The loss function may be nil if
// [Methods] has the two methods that use it.
//
// The model is a module of package nn. The methods of the Trainer itself need a Forward from one
// tensor to one and batches with Tensors, see [Pair]; other models have their own
// CalculateTrainBatchLoss and CalculateEvalBatchLoss in [Methods].
func New[S, B any](model any, loss LossFunc, optimizer optim.Builder, o Options[S, B]) (*Trainer[S, B], error) {
	if err := checkNew(model, loss, optimizer, o); err != nil {
		return nil, err
	}
	if err := loops.Started(o.Group); err != nil && o.Methods.CreateAccelerator == nil {
		return nil, prefixed(err)
	}
	callbacks, err := limitFromEnvironment()
	if err != nil {
		return nil, err
	}
	if o.Callbacks == nil {
		o.Callbacks = DefaultCallbacks()
	}
	callbacks = append(callbacks, o.Callbacks...)
	if err := checkCallbacks(callbacks, o.Events); err != nil {
		return nil, err
	}
	t := &Trainer[S, B]{options: o, methods: o.Methods.withDefaults(), loss: loss, Run: &Run{rules: o.Rules, model: model,
		modules: o.Modules, builder: optimizer, rate: optimizer.LearningRate(), callbacks: callbacks,
		history: cmp.Or[RunHistory](o.History, new(InMemoryRunHistory)), out: cmp.Or[io.Writer](o.Output, os.Stdout),
		progress: cmp.Or[io.Writer](o.Progress, os.Stderr), tracker: new(LossTracker), limitTrain: -1, limitEval: -1}}
	t.evaluate, t.loaders = t.evalEpoch, func() (train, eval sized) { return t.train, t.eval }
	// Also matches a program's own type that embeds InMemoryRunHistory.
	if h, ok := t.history.(interface{ keepLookups() }); ok && o.Rules.KeepLookups {
		h.keepLookups()
	}
	groups := slices.Clone(o.Groups)
	if o.Groups == nil {
		groups = []optim.Group{{Params: trained(model)}}
	}
	if failed := torch.Try(func() { t.optimizer, err = optimizer.Build(groups) }); failed != nil {
		err = failed
	}
	if err != nil {
		return nil, prefixed(err)
	}
	return t, event(t.Run, InitEndHook.OnInitEnd)
}

// checkNew reports mistakes that would otherwise fail in the middle of a run.
func checkNew[S, B any](model any, loss LossFunc, optimizer optim.Builder, o Options[S, B]) error {
	m := o.Methods
	err := cmp.Or(refuse(model == nil, "model", "nil", "a module"),
		refuse(optimizer == nil, "optimizer", "nil", "the settings of an optimizer, such as optim.AdamW{LR: 1e-3}"))
	if err != nil || m.CalculateTrainBatchLoss != nil && m.CalculateEvalBatchLoss != nil {
		return err
	}
	const or = ", or Methods.CalculateTrainBatchLoss and Methods.CalculateEvalBatchLoss"
	_, layer := model.(nn.Layer)
	batch := reflect.TypeFor[B]()
	return cmp.Or(refuse(loss == nil, "loss", "nil", "a loss function"+or),
		refuse(!layer, "model", fmt.Sprintf("of type %T", model), "a model with Forward(torch.Tensor) torch.Tensor"+or),
		refuse(!batch.Implements(reflect.TypeFor[Pair]()), "the type of batches", batch,
			"one with Tensors(torch.Device) (inputs, targets torch.Tensor)"+or))
}

func limitFromEnvironment() ([]any, error) {
	value := os.Getenv(LimitBatchesVariable)
	if value == "" || strings.EqualFold(value, "none") {
		return nil, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return nil, &OptionError{"the environment variable " + LimitBatchesVariable, strconv.Quote(value),
			`a positive number of batches, or "none"`}
	}
	return []any{&LimitBatches{NumBatches: n}}, nil
}
