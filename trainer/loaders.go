package trainer

import (
	"context"
	"fmt"
	"iter"

	"github.com/gotrainer/gotrainer/data"
)

// BatchLoader hands out the batches of an epoch in order, without its first skip ones; *data.Loader
// is one. The batches of an epoch must be the same each time they are asked for, or a resumed run
// is not the one that was interrupted.
type BatchLoader[B any] interface {
	Len() int // batches of an epoch
	Epoch(ctx context.Context, epoch, skip int) iter.Seq2[B, error]
}

// TrainLoaderMaker is implemented by a [Step] that makes the loader of the training set itself:
// get_train_dataloader of Hugging Face. The options are those that the trainer would have used.
type TrainLoaderMaker[S, B any] interface {
	TrainLoader(train data.Dataset[S], o data.LoaderOptions) (BatchLoader[B], error)
}

// EvalLoaderMaker is implemented by a [Step] that makes the loaders of evaluations itself:
// get_eval_dataloader of Hugging Face, and get_test_dataloader where e.Predict is set. Of several
// processes each then evaluates the whole set.
type EvalLoaderMaker[S, B any] interface {
	EvalLoader(e Evaluation, set data.Dataset[S], o data.LoaderOptions) (BatchLoader[B], error)
}

// Sampler is implemented by a [BatchLoader] that knows how many samples an epoch of it has:
// num_examples of Hugging Face. Of others it is the length of the data set.
type Sampler interface{ Samples() int }

// trainLoader makes the loader of the training set.
func (f *fit[S, B]) trainLoader(train data.Dataset[S]) (BatchLoader[B], error) {
	o := data.LoaderOptions{BatchSize: f.o.BatchSize, Order: f.order(), DropLast: f.o.DropLast, Workers: f.o.Workers,
		Prefetch: f.o.Prefetch, BadSample: f.o.BadSample, Shard: f.shard()}
	maker := func() (BatchLoader[B], error) { return data.NewLoader(train, f.t.step.Collate, o) }
	if m, ok := f.t.step.(TrainLoaderMaker[S, B]); ok {
		maker = func() (BatchLoader[B], error) { return m.TrainLoader(train, o) }
	}
	l, err := f.ownLoader(maker)
	if err == nil && l.Len() == 0 && !(f.o.Semantics.EndWithoutBatch && f.o.MaxSteps > 0) {
		err = &OptionError{"DropLast", fmt.Sprint(f.o.DropLast),
			fmt.Sprintf("false, since the %d samples of the training set are less than one batch of %d", train.Len(),
				f.o.BatchSize)}
	}
	return l, err
}

// evalLoader makes the loader of an evaluation.
func (f *fit[S, B]) evalLoader(e Evaluation, set data.Dataset[S], shard data.Shard) (BatchLoader[B], error) {
	o := data.LoaderOptions{
		BatchSize: f.o.EvalBatchSize, Order: f.evalOrder(), Workers: f.o.Workers, Prefetch: f.o.Prefetch,
		BadSample: f.o.BadSample,
		DropLast:  f.o.DropLast && f.o.Semantics.DropLastInEvaluation, Shard: shard,
	}
	maker := func() (BatchLoader[B], error) { return data.NewLoader(set, f.t.step.Collate, o) }
	if m, ok := f.t.step.(EvalLoaderMaker[S, B]); ok {
		maker = func() (BatchLoader[B], error) { return m.EvalLoader(e, set, o) }
	}
	l, err := f.ownLoader(maker)
	if err == nil && l.Len() == 0 && !o.DropLast && !e.Shared { // under DropLastInEvaluation it is one over no row
		err = &OptionError{"DropLast", fmt.Sprint(f.o.DropLast),
			fmt.Sprintf("false, since the %d rows of the validation set are less than one batch of EvalBatchSize %d",
				e.Rows, f.o.EvalBatchSize)}
	}
	return l, err
}

// ownLoader calls a maker, which may be the user's.
func (f *fit[S, B]) ownLoader(maker func() (BatchLoader[B], error)) (BatchLoader[B], error) {
	l, err := maker()
	if err == nil && l == nil {
		err = fmt.Errorf("trainer: %T made no loader: want one, or an error", f.t.step)
	}
	return l, err
}

// evalOrder is the order of the samples of an evaluation.
func (f *fit[S, B]) evalOrder() data.Order {
	if f.o.EvalOrder == nil {
		return data.Sequential{}
	}
	return f.o.EvalOrder
}

// order is the order of the training samples.
func (f *fit[S, B]) order() data.Order {
	if f.o.Order == nil {
		return data.Shuffled{Seed: f.o.DataSeed}
	}
	return f.o.Order
}
