// Package loops has what the trainers of compat have in common where they hand their loops to
// package trainer.
package loops

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// Step is what a step embeds whose trainer loads, evaluates, reports and schedules by itself: of
// the six methods of the arithmetic there are Train and Update to write.
type Step[B any] struct {
	trainer.BaseStep[struct{}, B]
	Batches trainer.BatchLoader[B] // of the training set
}

var errNotAsked = errors.New("the loop was to leave samples and evaluations to the trainer that it serves")

// Loader is that of the trainer.
func (s Step[B]) Loader(data.Dataset[struct{}], trainer.LoaderOptions) (trainer.BatchLoader[B], error) {
	return s.Batches, nil
}

// Report has nothing to add: the trainer keeps the losses.
func (Step[B]) Report(context.Context) (trainer.Report, error) {
	return trainer.Report{GradNorm: -1}, nil
}

// Collate is never asked for.
func (Step[B]) Collate([]struct{}) (none B, err error) { return none, errNotAsked }

// Eval is never asked for.
func (Step[B]) Eval(context.Context, B) error { return errNotAsked }

// Metrics is never asked for.
func (Step[B]) Metrics(context.Context) (trainer.Metrics, error) { return nil, errNotAsked }

// Fit runs the loop of package trainer for such a step, in one process and without a word, over a
// training set of so many samples. The error of a hook or a step is returned as it was.
func Fit[B any](ctx context.Context, step trainer.Step[struct{}, B], samples int, o trainer.Options) error {
	o.Schedule, o.Log, o.Eval = lr.Constant{}, trainer.Never, trainer.Never
	o.Progress, o.Process = io.Discard, trainer.Process{World: 1}
	run, err := trainer.New(step, o)
	if err != nil {
		return err
	}
	_, err = run.Fit(ctx, data.Func(samples, func(int) (none struct{}, err error) { return none, errNotAsked }), nil)
	var hook *trainer.HookError
	if errors.As(err, &hook) {
		return hook.Err
	}
	var failed *trainer.StepError
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// Scoped runs f in a scope of tensors, and turns the panic of an operator into an error.
func Scoped(f func() error) (err error) {
	panicked := torch.Try(func() { torch.Scope(func() { err = f() }) })
	return errors.Join(panicked, err)
}

// Draw takes an int64 from the default generator: torch.empty((), dtype=torch.int64).random_(), the
// seed that a DataLoader of PyTorch takes for its workers.
func Draw() (number int64) {
	torch.Scope(func() {
		number = torch.Values[int64](torch.TensorOptions{DType: torch.Int64}.Empty().Random_(nil))[0]
	})
	return number
}

// Momentum is the momentum that a schedule has for the updates of an optimizer; the zero value
// leaves it alone.
type Momentum struct {
	plan   lr.Rate
	setter optim.MomentumSetter
}

// PlanMomentum plans the momentum of an optimizer, which it may not have.
func PlanMomentum(s lr.Schedule, o optim.Optimizer, updates int) (m Momentum, err error) {
	if moving, ok := s.(lr.MomentumSchedule); ok {
		m.plan = moving.PlanMomentum(updates)
	}
	if m.plan == nil {
		return m, nil
	}
	var ok bool
	if m.setter, ok = o.(optim.MomentumSetter); !ok {
		return m, fmt.Errorf("%T moves the momentum too, which an optimizer of type %T cannot set; leave the "+
			"momentum alone (FixedMomentum) or take another optimizer", s, o)
	}
	return m, nil
}

// At is the momentum of an update; ok is false where the schedule leaves it alone.
func (m Momentum) At(update int) (momentum float64, ok bool) {
	if m.plan == nil {
		return 0, false
	}
	return m.plan(update), true
}

// Set gives the optimizer the momentum of an update.
func (m Momentum) Set(update int) error {
	if momentum, ok := m.At(update); ok {
		return m.setter.SetMomentum(momentum)
	}
	return nil
}
