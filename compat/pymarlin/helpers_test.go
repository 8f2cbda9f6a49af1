package pymarlin_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/gotrainer/gotrainer/compat/pymarlin"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
)

// batch holds a row of three numbers and a class for each sample.
type batch struct {
	index []int
	x     []float32
	y     []int64
}

// samples returns n samples, each its own index.
func samples(n int) data.Dataset[int] {
	return data.Func(n, func(i int) (int, error) { return i, nil })
}

func collate(rows []int) (batch, error) {
	var b batch
	for _, i := range rows {
		b.index = append(b.index, i)
		b.x = append(b.x, float32(i%5)-2, float32(i%3)-1, float32(i%2))
		b.y = append(b.y, int64(i%2))
	}
	return b, nil
}

// net is a module with two layers, an optimizer for each, and dropout in between.
type net struct {
	pymarlin.StatsHolder
	nn.Mode
	In  *nn.Linear `module:"in"`
	Out *nn.Linear `module:"out"`

	rows, validRows int
	plain           bool // one optimizer without schedule, no dropout
	events          []string
	fail            func(step int) error // called by each training step; nil: never fails
	seen            func()               // called by each step, of validations too
	loads           func()               // called when a loader is made
}

func newNet(rows int) *net {
	torch.ManualSeed(7)
	return &net{In: nn.NewLinear(3, 4, nil), Out: nn.NewLinear(4, 2, nil), rows: rows, validRows: 5}
}

func (n *net) event(format string, args ...any) {
	n.events = append(n.events, fmt.Sprintf(format, args...))
}

func (n *net) forward(x torch.Tensor) torch.Tensor {
	h := n.In.Forward(x).Tanh()
	if !n.plain {
		h = functional.Dropout(h, 0.3, n.Training())
	}
	return n.Out.Forward(h)
}

func (n *net) OptimizersSchedulers(steps, epochs int) ([]*pymarlin.Optimizer, []pymarlin.Scheduler, error) {
	n.event("optimizers(%d, %d)", steps, epochs)
	if n.plain {
		o, err := pymarlin.NewOptimizer(optim.SGD{LR: 0.1}, nn.Params(n))
		return []*pymarlin.Optimizer{o}, nil, err
	}
	params := nn.Params(n)
	first, err := pymarlin.NewOptimizer(optim.SGD{LR: 0.1, Momentum: 0.9}, params[:2])
	second, err2 := pymarlin.NewOptimizer(optim.AdamW{LR: 1e-2}, params[2:])
	if err := errors.Join(err, err2); err != nil {
		return nil, nil, err
	}
	a, err := pymarlin.NewScheduler(first, lr.StepLR{StepSize: 2, Gamma: 0.5}, 100)
	b, err2 := pymarlin.NewScheduler(second, lr.OneCycleLR{MaxLR: 0.05, TotalSteps: 40}, 40)
	return []*pymarlin.Optimizer{first, second}, []pymarlin.Scheduler{a, b}, errors.Join(err, err2)
}

func (n *net) loader(rows int, s pymarlin.Sampler, size int) (pymarlin.Dataloader[batch], error) {
	return pymarlin.NewDataloader(samples(rows), collate, pymarlin.DataloaderOptions{BatchSize: size, Sampler: s,
		Workers: 1})
}

func (n *net) TrainDataloader(s pymarlin.Sampler, size int) (pymarlin.Dataloader[batch], error) {
	n.event("train loader(%s, %d)", s.Name(), size)
	if n.loads != nil {
		n.loads()
	}
	return n.loader(n.rows, s, size)
}

func (n *net) ValDataloaders(s pymarlin.Sampler, size int) (pymarlin.Dataloaders[batch], error) {
	n.event("val loaders(%s, %d)", s.Name(), size)
	l, err := n.loader(n.validRows, s, size)
	return pymarlin.Single(l), err
}

func (n *net) TrainStep(step int, b batch, _ torch.Device) (pymarlin.Outputs, error) {
	n.event("train(%d)", step)
	n.saw()
	if n.fail != nil {
		if err := n.fail(step); err != nil {
			return pymarlin.Outputs{}, err
		}
	}
	out, y := n.forward(torch.From(b.x, int64(len(b.y)), 3)), torch.From(b.y, int64(len(b.y)))
	return pymarlin.Outputs{Tensors: []torch.Tensor{functional.CrossEntropy(out, y), y}, Values: []any{b.index}}, nil
}

func (n *net) ValStep(step int, b batch, _ torch.Device) (pymarlin.Outputs, error) {
	n.event("val(%d)", step)
	n.saw()
	out := n.forward(torch.From(b.x, int64(len(b.y)), 3))
	return pymarlin.Tensors(out.ArgMax(-1, false)), nil
}

func (n *net) saw() {
	if n.seen != nil {
		n.seen()
	}
}

// quiet returns arguments without checkpoints, writers and log lines.
func quiet(a pymarlin.TrainerArguments) pymarlin.TrainerArguments {
	a.NoGPU, a.DisableTqdm = true, true
	if a.Writers == nil {
		a.Writers = []string{}
	}
	if a.CheckpointerArgs == (pymarlin.CheckpointerArguments{}) {
		a.CheckpointerArgs.NoCheckpoint = true
	}
	return a
}

func options() *pymarlin.Options[batch] {
	return &pymarlin.Options[batch]{Logger: slog.New(slog.DiscardHandler)}
}

// train makes a trainer and runs it.
func train(t *testing.T, m pymarlin.ModuleInterface[batch], a pymarlin.TrainerArguments,
	o *pymarlin.Options[batch]) *pymarlin.Trainer[batch] {
	t.Helper()
	testenv.RequireTorch(t)
	if o == nil {
		o = options()
	}
	trainer, err := pymarlin.New(m, quiet(a), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := trainer.Train(context.Background()); err != nil {
		t.Fatal(err)
	}
	return trainer
}

// weights returns all weights of a module.
func weights(m any) []float32 {
	var out []float32
	for _, p := range nn.StateDict(m) {
		out = append(out, torch.Values[float32](p.Tensor)...)
	}
	return out
}

// Model returns the net itself, for types that embed it.
func (n *net) Model() any { return n }
