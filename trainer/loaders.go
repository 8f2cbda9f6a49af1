package trainer

import (
	"cmp"
	"context"
	"iter"

	"github.com/gotrainer/gotrainer/data"
)

// BatchLoader delivers the batches of an epoch in order, leaving out the first skip ones.
// *data.Loader is one. The batches of an epoch must be the same each time, or a resumed run is not
// a continuation of the interrupted one. If a loader has a method Samples() int, it says how many
// samples an epoch has (num_examples in Hugging Face). Otherwise that is the length of the data
// set.
type BatchLoader[B any] interface {
	Len() int // batches in an epoch
	Epoch(ctx context.Context, epoch, skip int) iter.Seq2[B, error]
}

// samplesOf returns the number of samples in a pass over a loader whose data set has n samples.
func samplesOf(loader any, n int) int {
	if c, ok := loader.(interface{ Samples() int }); ok {
		return c.Samples()
	}
	return n
}

// trainLoader makes the loader of the training set, and the passes over it.
func (r *runner) trainLoader(train dataset) (l *loader, pass passes, err error) {
	o := data.LoaderOptions{BatchSize: r.o.BatchSize, Order: r.orderOf(train.Len()), DropLast: r.o.DropLast,
		Workers: r.o.Workers, Prefetch: r.o.Prefetch, BadSample: r.o.BadSample, Shard: r.shard()}
	if r.o.DivideOnOutOfMemory {
		l, err = r.dividedLoader(train, o)
	} else if l, err = train.ownLoader(LoaderOptions{LoaderOptions: o}); err == nil && l == nil {
		l, err = train.newLoader(r.recycling(o), nil)
	}
	if err != nil {
		return nil, nil, err
	}
	pass = setPasses(l, train.Len(), r.o.BatchSize, data.Shard{})
	if r.o.DivideOnOutOfMemory {
		pass = r.divider.batches(pass)
	}
	if l.Len() == 0 && !(r.o.Semantics.EndWithoutBatch && r.o.MaxSteps > 0) {
		return nil, nil, wrong("DropLast", r.o.DropLast, "false, since the %d samples of the training set are less than "+
			"one batch of %d", train.Len(), r.o.BatchSize)
	}
	return l, pass, nil
}

// evalLoaderOptions returns the options of the loader for an evaluation by one process.
func (ev *evaluator) evalLoaderOptions(e *Evaluation) LoaderOptions {
	return LoaderOptions{Evaluation: e, LoaderOptions: data.LoaderOptions{
		BatchSize: ev.o.EvalBatchSize, Order: cmp.Or[data.Order](ev.o.EvalOrder, data.Sequential{}),
		Workers: ev.o.Workers, Prefetch: ev.o.Prefetch, BadSample: ev.o.BadSample, DropLast: ev.dropsLastOfEval(),
	}}
}

func (ev *evaluator) dropsLastOfEval() bool {
	return ev.o.DropLast && ev.o.Semantics.DropLastInEvaluation
}

// checkEvalLoader refuses a loader without batches for an evaluation. Under DropLastInEvaluation
// that is an evaluation of no samples.
func (ev *evaluator) checkEvalLoader(e *evaluation, batches int) error {
	if batches > 0 || e.shared || ev.dropsLastOfEval() {
		return nil
	}
	return wrong("DropLast", ev.o.DropLast, "false, since the %d rows of the validation set are less than one batch of "+
		"EvalBatchSize %d", e.rows, ev.o.EvalBatchSize)
}
