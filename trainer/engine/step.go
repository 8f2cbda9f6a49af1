package engine

import (
	"context"
	"errors"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/trainer"
)

// Step is a model, its optimizer and their state: a [trainer.Step] made by [New]. Like every Step
// it is for use by one goroutine at a time.
type Step[S, B any] struct {
	// Go compiles the methods of a generic type again for every pair of types that a program uses.
	// Nearly all that a Step does concerns neither S nor B, so its core does it, which is compiled
	// once. The methods in this file are those that mention a type. They pass batches to the core as
	// values of type any, and the core passes them to the task, which has its types back: typed.go.
	core
}

var (
	_ trainer.Step[int, int] = (*Step[int, int])(nil)
	_ trainer.SplitStep[int] = (*Step[int, int])(nil)
	_ trainer.GroupStep[int] = (*Step[int, int])(nil)

	_ trainer.Recycler[int]        = (*Step[int, int])(nil)
	_ trainer.NonFiniteFinder[int] = (*Step[int, int])(nil)
)

// New makes a Step from a task. It moves the model to the device, loads initial weights and builds
// the optimizer.
func New[S, B any](task Task[S, B], o Options) (*Step[S, B], error) {
	return newStep[S, B](untyped(task), nil, o)
}

// NewFromInit is [New] with a function that makes the task and its model: model_init of Hugging
// Face's Trainer. The function is called once immediately, since New needs a model, and again each
// time the run is seeded, right after the seeding. The initial weights are therefore determined by
// the seed, and the random numbers that follow continue from there. Anything trained before is lost
// at that point.
func NewFromInit[S, B any](init func() (Task[S, B], error), o Options) (*Step[S, B], error) {
	if init == nil {
		return nil, errors.New("engine: NewFromInit needs a function that makes a task, got nil")
	}
	makeTask := func() (task, error) {
		t, err := init()
		return untyped(t), err
	}
	t, err := callInit(makeTask)
	if err != nil {
		return nil, err
	}
	return newStep[S, B](t, makeTask, o)
}

func newStep[S, B any](t task, init func() (task, error), o Options) (*Step[S, B], error) {
	s := new(Step[S, B])
	if err := s.begin(t, init, o); err != nil {
		return nil, err
	}
	return s, nil
}

// Collate calls the task.
func (s *Step[S, B]) Collate(samples []S) (B, error) {
	return as[Task[S, B]](s.task.given).Collate(samples)
}

// Loader makes the loaders of a run that sends batches ahead, keeps its training set on the device
// or evaluates by length. In all other cases it leaves them to the trainer. It refuses a batch size
// that the task does ([BatchSizeValidator]).
func (s *Step[S, B]) Loader(set data.Dataset[S], o trainer.LoaderOptions) (trainer.BatchLoader[B], error) {
	l, err := s.loader(&typedSamples[S, B]{set, s}, o)
	if l == nil {
		return nil, err
	}
	return loader[B]{l.lengths, typedPass[B](l.pass)}, nil
}

// Count returns the numbers of labelled items ([ItemCounter]) and input tokens ([TokenCounter]) of
// a batch, as the task counts them; with [Options].NonPaddingTokens, the tokens exclude padding.
// The floating-point operations of the forward and the backward pass are estimated as 6 per token
// and per parameter, not counting the weights of embeddings, as in floating_point_ops of
// transformers. What the task does not count is 0.
func (s *Step[S, B]) Count(b B) (n trainer.Counts) {
	if s.task.counts() { // otherwise nothing is allocated to pass the batch
		n = s.count(b)
	}
	return n
}

// Train adds the gradient of one micro-batch.
func (s *Step[S, B]) Train(ctx context.Context, b B, w trainer.Window) error {
	return s.train(ctx, b, w)
}

// Forward runs the forward pass of a micro-batch. Its graph is kept until Backward.
func (s *Step[S, B]) Forward(ctx context.Context, b B, w trainer.Window) (err error) {
	return s.forward(ctx, b, w)
}

// FindNonFinite runs the forward and the backward pass on a micro-batch again, with different
// random numbers. It can name layers of package nn that have parameters.
func (s *Step[S, B]) FindNonFinite(ctx context.Context, b B, w trainer.Window) (o trainer.NonFiniteOrigin, err error) {
	return s.findNonFinite(ctx, b, w)
}

// Eval adds a batch to the running evaluation. It does not wait for the device, unless the task
// does.
func (s *Step[S, B]) Eval(_ context.Context, b B) error { return s.evaluate(b) }

// EvalRound adds the batches of all processes in one round to the running evaluation.
func (s *Step[S, B]) EvalRound(ctx context.Context, r trainer.EvalRound[B]) error {
	return s.evalRound(ctx, trainer.EvalRound[any]{Batch: r.Batch, Rows: r.Rows, Round: r.Round})
}

// Recycle calls the task's Recycle, if it is a [Recycler].
func (s *Step[S, B]) Recycle(b B) {
	if s.task.isRecycler {
		as[Recycler[B]](s.task.given).Recycle(b)
	}
}
