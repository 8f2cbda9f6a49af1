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

// SampleCounter is implemented by a [BatchLoader] that knows how many samples an epoch of it has:
// num_examples of Hugging Face. Of others it is the length of the data set.
type SampleCounter interface{ Samples() int }

// samplesOf is how many samples a pass over a loader has, whose data set has n.
func samplesOf[B any](loader BatchLoader[B], n int) int {
	if c, ok := loader.(SampleCounter); ok {
		return c.Samples()
	}
	return n
}

// trainLoader makes the loader of the training set.
func (f *fit[S, B]) trainLoader(train data.Dataset[S]) (BatchLoader[B], error) {
	o := data.LoaderOptions{BatchSize: f.o.BatchSize, Order: f.order(), DropLast: f.o.DropLast, Workers: f.o.Workers,
		Prefetch: f.o.Prefetch, BadSample: f.o.BadSample, Shard: f.shard()}
	l, err := f.t.step.Loader(train, LoaderOptions{LoaderOptions: o})
	if err == nil && l == nil {
		l, err = data.NewLoader(train, f.t.step.Collate, o)
	}
	if err == nil && l.Len() == 0 && !(f.o.Semantics.EndWithoutBatch && f.o.MaxSteps > 0) {
		err = &OptionError{"DropLast", fmt.Sprint(f.o.DropLast),
			fmt.Sprintf("false, since the %d samples of the training set are less than one batch of %d", train.Len(),
				f.o.BatchSize)}
	}
	return l, err
}

// evalLoaderOptions are those of the loader of an evaluation by one process.
func (f *fit[S, B]) evalLoaderOptions(e *Evaluation) LoaderOptions {
	return LoaderOptions{Evaluation: e, LoaderOptions: data.LoaderOptions{
		BatchSize: f.o.EvalBatchSize, Order: f.evalOrder(), Workers: f.o.Workers, Prefetch: f.o.Prefetch,
		BadSample: f.o.BadSample, DropLast: f.dropsLastOfEval(),
	}}
}

func (f *fit[S, B]) dropsLastOfEval() bool { return f.o.DropLast && f.o.Semantics.DropLastInEvaluation }

// checkEvalLoader refuses the loader of an evaluation without a batch; under DropLastInEvaluation
// it is one over no row.
func (f *fit[S, B]) checkEvalLoader(e Evaluation, batches int) error {
	if batches > 0 || e.Shared || f.dropsLastOfEval() {
		return nil
	}
	return &OptionError{"DropLast", fmt.Sprint(f.o.DropLast),
		fmt.Sprintf("false, since the %d rows of the validation set are less than one batch of EvalBatchSize %d",
			e.Rows, f.o.EvalBatchSize)}
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
