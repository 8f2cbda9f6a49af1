// Package loops holds what the trainers in compat share to run their loops with package trainer.
package loops

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// Step is embedded by the steps of trainers that load, evaluate, report, schedule and manage random
// numbers themselves: of the six arithmetic methods, only Train and Update remain to be written.
// The loop never calls the methods that return an error.
type Step[B any] struct {
	trainer.BaseStep[struct{}, B]
	Batches trainer.BatchLoader[B] // of the training set
}

var errNotAsked = errors.New("the loop was to leave samples and evaluations to the trainer that it serves")

// RandomState returns nothing.
func (Step[B]) RandomState() ([]byte, error) { return nil, nil }

// SetRandomState does nothing.
func (Step[B]) SetRandomState([]byte) error { return nil }

// SharesEval returns false: each process evaluates by itself.
func (Step[B]) SharesEval(trainer.Evaluation) bool { return false }

// Loader returns the trainer's batches.
func (s Step[B]) Loader(data.Dataset[struct{}], trainer.LoaderOptions) (trainer.BatchLoader[B], error) {
	return s.Batches, nil
}

// Report returns no losses: the trainer keeps them.
func (Step[B]) Report(context.Context) (trainer.Report, error) {
	return trainer.Report{GradNorm: -1}, nil
}

func (Step[B]) Collate([]struct{}) (none B, err error) { return none, errNotAsked }

func (Step[B]) Eval(context.Context, B) error { return errNotAsked }

func (Step[B]) Metrics(context.Context) (trainer.Metrics, error) { return nil, errNotAsked }

// JoinGroup does nothing: the trainer has prepared its model already.
func (Step[B]) JoinGroup(context.Context, *dist.Group) error { return nil }

func (Step[B]) EvalRound(context.Context, trainer.EvalRound[B]) error { return errNotAsked }

// Started refuses a process that was started as one of several but would train alone.
func Started(g *dist.Group) error {
	if world, variable := dist.Started(os.Getenv); g == nil && world > 1 {
		return fmt.Errorf("this process was started as one of several (%s=%d), but Options.Group is nil, so each would "+
			"train by itself and all write to the same files: set it to what dist.Init returns, or to a group of one "+
			"(dist.Options{World: 1})", variable, world)
	}
	return nil
}

// Fit runs the loop of package trainer for such a step, without output, over a training set with a
// number of samples. A nil group means a single process, whatever the environment says.
func Fit[B any](ctx context.Context, g *dist.Group, step trainer.Step[struct{}, B], samples int,
	o trainer.Options) error {
	o.Schedule, o.Log, o.Eval = lr.Constant{}, cmp.Or(o.Log, trainer.Never), trainer.Never
	o.Progress = io.Discard
	if o.Group = g; g.World() == 1 {
		o.Group, o.Process = nil, trainer.Process{World: 1}
	}
	run, err := trainer.New(step, o)
	if err != nil {
		return err
	}
	_, err = run.Fit(ctx, data.Func(samples, func(int) (none struct{}, err error) { return none, errNotAsked }), nil)
	return err
}

// Cause returns the error of a hook or step without the loop's description of where it occurred.
func Cause(err error) error {
	if hook, ok := errors.AsType[*trainer.HookError](err); ok {
		return hook.Err
	}
	if failed, ok := errors.AsType[*trainer.StepError](err); ok {
		return failed.Err
	}
	return err
}

// Together returns an error on all processes of a group if one of them has an error: its own, or
// that of the first one that failed, with its rank. ErrInterrupted and a trainer.StopError are
// returned without rank.
func Together(g *dist.Group, err error) error {
	if g.World() == 1 {
		return err
	}
	news := []byte{}
	var stop trainer.StopError
	switch {
	case errors.Is(err, ErrInterrupted):
		news, err = []byte("i"), nil
	case errors.As(err, &stop):
		news = []byte("s" + stop.Error())
	case err != nil:
		news = []byte("x" + err.Error())
	}
	all, failed := g.AllGather(context.Background(), news)
	if err != nil || failed != nil {
		return cmp.Or(err, failed)
	}
	for rank, n := range all {
		switch {
		case len(n) == 0:
		case n[0] == 'i':
			return ErrInterrupted
		case n[0] == 's':
			return trainer.StopError(n[1:])
		default:
			return fmt.Errorf("rank %d has failed: %s", rank, n[1:])
		}
	}
	return nil
}

// ErrInterrupted means that a process of the group was interrupted.
var ErrInterrupted = errors.New("a process of the run was interrupted")

// Most returns the largest of the numbers of all processes in a group.
func Most(g *dist.Group, own int) (int, error) {
	n := []int64{int64(own)}
	err := dist.AllReduce(context.Background(), g, n, dist.Max)
	return int(n[0]), err
}

// Anywhere reports, on all processes of a group, whether here is true on any of them.
func Anywhere(g *dist.Group, here bool) (bool, error) {
	own := 0
	if here {
		own = 1
	}
	most, err := Most(g, own)
	return most > 0, err
}

// Shares gathers what each process of a group stores in a checkpoint that the main process writes;
// nil for a single process.
func Shares(g *dist.Group, own any) ([]json.RawMessage, error) {
	if g.World() == 1 {
		return nil, nil
	}
	text, err := json.Marshal(own)
	all, failed := g.AllGather(context.Background(), text)
	if err != nil || failed != nil {
		return nil, cmp.Or(err, failed)
	}
	shares := make([]json.RawMessage, len(all))
	for rank, s := range all {
		shares[rank] = s
	}
	return shares, nil
}

// Share decodes the part of this process from the result of Shares, unless there is only one
// process. Parts for another number of processes are refused.
func Share(g *dist.Group, shares []json.RawMessage, own any) error {
	if n := max(1, len(shares)); n != g.World() {
		return fmt.Errorf("%w: it was written by %d processes, and there are %d now", trainer.ErrOtherRun, n, g.World())
	}
	if len(shares) == 0 {
		return nil
	}
	return json.Unmarshal(shares[g.Rank()], own)
}

// Scoped runs f in a scope for tensors, and returns an operator's panic as an error.
func Scoped(f func() error) (err error) {
	panicked := torch.Try(func() { torch.Scope(func() { err = f() }) })
	return cmp.Or(panicked, err)
}

// AllSet returns a struct of switches with all of them set.
func AllSet[Rules any]() (all Rules) {
	for _, f := range reflect.ValueOf(&all).Elem().Fields() {
		f.SetBool(true)
	}
	return all
}

// Momentum is the momentum that a schedule sets for an optimizer's updates; the zero value leaves
// it unchanged.
type Momentum struct {
	plan   lr.Rate
	setter optim.MomentumSetter
}

// PlanMomentum plans the momentum for an optimizer. It fails if the schedule sets a momentum and
// the optimizer does not support that.
func PlanMomentum(s lr.Schedule, o optim.Optimizer, updates int) (m Momentum, err error) {
	if m.plan = lr.PlanMomentum(s, updates); m.plan == nil {
		return m, nil
	}
	var ok bool
	if m.setter, ok = o.(optim.MomentumSetter); !ok {
		return m, fmt.Errorf("%T moves the momentum too, which an optimizer of type %T cannot set; leave the "+
			"momentum alone (FixedMomentum) or take another optimizer", s, o)
	}
	return m, nil
}

// At returns the momentum of an update; ok is false if the schedule does not change it.
func (m Momentum) At(update int) (momentum float64, ok bool) {
	if m.plan == nil {
		return 0, false
	}
	return m.plan(update), true
}

// Set sets the optimizer's momentum for an update.
func (m Momentum) Set(update int) error {
	if momentum, ok := m.At(update); ok {
		return m.setter.SetMomentum(momentum)
	}
	return nil
}
