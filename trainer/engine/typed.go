package engine

import (
	"context"
	"iter"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/torch"
)

// The border between a Step, which knows the types of samples and batches, and its core, which does
// not. The core has the task, and the samples of a data set, as interfaces in which a batch is of
// type any. They are implemented here, and here a batch gets its type back.

// task is a [Task] as the core knows it.
type task struct {
	// given is the task that New was given: messages name its type, and it is asked for those
	// optional interfaces that have no type parameter, such as StateOwner.
	given any
	batchMethods

	// Which of the others it implements. The methods of those that it does not must not be called.
	isItemCounter, isLabelCounter, isTokenCounter bool
	isPredictor, isObserver, isEvaluator          bool
	isTrainingStepper, isLossObserver             bool
	isInputLister, isRecycler, isLengther         bool
}

// batchMethods are what the core calls of a task, and of the interfaces that it may also implement,
// for batches of type any.
type batchMethods interface {
	Model() any
	Loss(p ForwardPass, b any) Loss

	ItemCounter[any]
	LabelCounter[any]
	TokenCounter[any]
	Observer[any] // has those of Predictor
	Evaluator[any]
	TrainingStepper[any]
	LossObserver[any]
	InputLister[any]
}

// counts reports whether the task counts anything in a batch.
func (t *task) counts() bool { return t.isItemCounter || t.isLabelCounter || t.isTokenCounter }

// untyped returns a task as the core knows it.
func untyped[S, B any](t Task[S, B]) task {
	return task{
		given: t, batchMethods: &untypedTask[S, B]{t},
		isItemCounter: is[ItemCounter[B]](t), isLabelCounter: is[LabelCounter[B]](t),
		isTokenCounter: is[TokenCounter[B]](t), isPredictor: is[Predictor[B]](t), isObserver: is[Observer[B]](t),
		isEvaluator: is[Evaluator[B]](t), isTrainingStepper: is[TrainingStepper[B]](t),
		isLossObserver: is[LossObserver[B]](t), isInputLister: is[InputLister[B]](t), isRecycler: is[Recycler[B]](t),
		isLengther: is[Lengther[S]](t),
	}
}

// untypedTask passes the batches of the core on to a task.
type untypedTask[S, B any] struct{ task Task[S, B] }

func (t *untypedTask[S, B]) Model() any { return t.task.Model() }

func (t *untypedTask[S, B]) Loss(p ForwardPass, b any) Loss { return t.task.Loss(p, as[B](b)) }

func (t *untypedTask[S, B]) CountItems(b any) int64 {
	return as[ItemCounter[B]](t.task).CountItems(as[B](b))
}

func (t *untypedTask[S, B]) CountLabels(b any) int64 {
	return as[LabelCounter[B]](t.task).CountLabels(as[B](b))
}

func (t *untypedTask[S, B]) CountTokens(b any) (all, nonPadding int64) {
	return as[TokenCounter[B]](t.task).CountTokens(as[B](b))
}

func (t *untypedTask[S, B]) Predict(p ForwardPass, b any) Outputs {
	return as[Predictor[B]](t.task).Predict(p, as[B](b))
}

func (t *untypedTask[S, B]) LossOf(p ForwardPass, o Outputs) Loss {
	return as[Predictor[B]](t.task).LossOf(p, o)
}

func (t *untypedTask[S, B]) Observe(b any, o Outputs) {
	as[Observer[B]](t.task).Observe(as[B](b), o)
}

func (t *untypedTask[S, B]) Evaluate(p ForwardPass, b any) Loss {
	return as[Evaluator[B]](t.task).Evaluate(p, as[B](b))
}

// Metrics is that of an Observer or an Evaluator.
func (t *untypedTask[S, B]) Metrics() map[string]float64 {
	return as[interface{ Metrics() map[string]float64 }](t.task).Metrics()
}

func (t *untypedTask[S, B]) TrainingStep(c Training[any], b any) torch.Tensor {
	typed := Training[B]{c.ForwardPass, func(b B) Loss { return c.Loss(b) }, c.Backward}
	return as[TrainingStepper[B]](t.task).TrainingStep(typed, as[B](b))
}

func (t *untypedTask[S, B]) ObserveLoss(b any, loss torch.Tensor) {
	as[LossObserver[B]](t.task).ObserveLoss(as[B](b), loss)
}

func (t *untypedTask[S, B]) Inputs(p ForwardPass, b any) {
	as[InputLister[B]](t.task).Inputs(p, as[B](b))
}

// samples are those of a data set as the core knows them.
type samples interface {
	dataset() any
	count() int
	varies() bool                         // from epoch to epoch
	length(i int) (int, error)            // that the task, a Lengther, gives sample i
	batchOf(i int) (batch any, err error) // of sample i alone

	loader(o data.LoaderOptions) (plainLoader[any], error)
	// numberedLoader makes a loader that calls check with each batch, in its goroutines.
	numberedLoader(check func(numbered) error, o data.LoaderOptions) (plainLoader[numbered], error)
}

// typedSamples are the samples of a data set from which a Step makes batches.
type typedSamples[S, B any] struct {
	set  data.Dataset[S]
	step *Step[S, B]
}

func (t *typedSamples[S, B]) dataset() any { return t.set }
func (t *typedSamples[S, B]) count() int   { return t.set.Len() }
func (t *typedSamples[S, B]) varies() bool { return data.Varies(t.set) }

func (t *typedSamples[S, B]) length(i int) (int, error) {
	sample, err := t.set.At(i)
	if err != nil {
		return 0, err
	}
	return as[Lengther[S]](t.step.task.given).Length(sample), nil
}

func (t *typedSamples[S, B]) batchOf(i int) (any, error) {
	sample, err := t.set.At(i)
	if err != nil {
		return nil, err
	}
	return t.collate([]S{sample})
}

func (t *typedSamples[S, B]) collate(list []S) (any, error) { return t.step.Collate(list) }

func (t *typedSamples[S, B]) loader(o data.LoaderOptions) (plainLoader[any], error) {
	return data.NewLoader(t.set, t.collate, o)
}

func (t *typedSamples[S, B]) numberedLoader(check func(numbered) error, o data.LoaderOptions) (plainLoader[numbered],
	error) {
	return data.NewLoader(data.Enumerate(t.set), func(list []data.Numbered[S]) (n numbered, err error) {
		plain := make([]S, len(list))
		n.rows = make([]int64, len(list))
		for i, s := range list {
			plain[i], n.rows[i] = s.Sample, int64(s.Index)
		}
		if n.batch, err = t.collate(plain); err == nil {
			err = check(n)
		}
		return n, err
	}, o)
}

// typedPass gives the batches of a pass their type back.
func typedPass[B any](p pass[any]) pass[B] {
	return func(ctx context.Context, epoch, skip int) iter.Seq2[B, error] {
		return func(yield func(B, error) bool) {
			p(ctx, epoch, skip)(func(batch any, err error) bool { return yield(as[B](batch), err) })
		}
	}
}

// is reports whether a value, such as a task or an optimizer, also implements T.
func is[T any](v any) bool {
	_, ok := v.(T)
	return ok
}

// as returns a value that is a T as one. If T is an interface, nil is its nil.
func as[T any](v any) T {
	t, _ := v.(T)
	return t
}
