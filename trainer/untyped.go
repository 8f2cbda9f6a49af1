package trainer

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/gotrainer/gotrainer/data"
)

// Go compiles a generic function again for every pair of types that a program uses it with. The
// loop does not depend on the types of samples and batches, so it is compiled only once, without
// them: it sees a [Step] as an [untypedStep], a data set as a [dataset], and a batch as any. This
// file is the border between the two.

// untypedStep is a [Step] without its type parameters.
type untypedStep struct {
	arithmetic
	given any // the Step that New was given: for its name, and for optional interfaces without types

	// The optional interfaces of the step; nil: it does not implement them.
	split    SplitStep[any]
	group    GroupStep[any]
	finder   NonFiniteFinder[any]
	recycler Recycler[any]
}

// arithmetic has the methods of a [Step], but for those that concern samples.
type arithmetic interface {
	About() About
	Count(batch any) Counts
	Around(body func() error) error
	Seed(seed uint64, o SeedOptions) error
	StartLoader(train bool) error
	ZeroGrad() error
	Train(ctx context.Context, batch any, w Window) error
	Clip(ctx context.Context) error
	SetMomentum(momentum float64) error
	Update(ctx context.Context, lr float64) (applied bool, err error)
	Report(ctx context.Context) (Report, error)
	StartEval(e Evaluation) error
	Eval(ctx context.Context, batch any) error
	Metrics(ctx context.Context) (Metrics, error)
	Save(dir string, o SaveOptions) error
	Load(dir string, o LoadOptions) error
	NonFinite() ([]string, error)
	EmptyCache() error
	OutOfMemory(err error) bool
}

func newUntypedStep[S, B any](step Step[S, B]) untypedStep {
	u := untypedStep{arithmetic: typedStep[S, B]{step}, given: step}
	if s, ok := step.(SplitStep[B]); ok {
		u.split = typedSplitStep[B]{s}
	}
	if s, ok := step.(GroupStep[B]); ok {
		u.group = typedGroupStep[B]{s}
	}
	if s, ok := step.(NonFiniteFinder[B]); ok {
		u.finder = typedFinder[B]{s}
	}
	if s, ok := step.(Recycler[B]); ok {
		u.recycler = typedRecycler[B]{s}
	}
	return u
}

// as returns a batch in its own type. If that is an interface, the batch may be nil.
func as[B any](batch any) B {
	b, _ := batch.(B)
	return b
}

type typedStep[S, B any] struct{ Step[S, B] }

func (s typedStep[S, B]) Count(batch any) Counts { return s.Step.Count(as[B](batch)) }

func (s typedStep[S, B]) Train(ctx context.Context, batch any, w Window) error {
	return s.Step.Train(ctx, as[B](batch), w)
}

func (s typedStep[S, B]) Eval(ctx context.Context, batch any) error {
	return s.Step.Eval(ctx, as[B](batch))
}

type typedSplitStep[B any] struct{ SplitStep[B] }

func (s typedSplitStep[B]) Forward(ctx context.Context, batch any, w Window) error {
	return s.SplitStep.Forward(ctx, as[B](batch), w)
}

type typedGroupStep[B any] struct{ GroupStep[B] }

func (s typedGroupStep[B]) EvalRound(ctx context.Context, r EvalRound[any]) error {
	return s.GroupStep.EvalRound(ctx, EvalRound[B]{as[B](r.Batch), r.Rows, r.Round})
}

type typedFinder[B any] struct{ NonFiniteFinder[B] }

func (f typedFinder[B]) FindNonFinite(ctx context.Context, batch any, w Window) (NonFiniteOrigin, error) {
	return f.NonFiniteFinder.FindNonFinite(ctx, as[B](batch), w)
}

type typedRecycler[B any] struct{ Recycler[B] }

func (r typedRecycler[B]) Recycle(batch any) { r.Recycler.Recycle(as[B](batch)) }

// dataset is a data set without the type of its samples.
type dataset interface {
	Len() int
	// ownLoader returns the loader that the step makes; nil: it leaves that to the trainer.
	ownLoader(o LoaderOptions) (*loader, error)
	// newLoader makes a loader of the trainer. If parts is not nil, a batch is a []part.
	newLoader(o data.LoaderOptions, parts *atomic.Int64) (*loader, error)
	fingerprint(ctx context.Context) (map[int]string, error)
}

// validation is what Fit and Evaluate are given to evaluate, without the type of its samples; nil:
// nothing.
type validation struct {
	sets    []evalSet
	several bool // EvalSets; otherwise there is one set, without a name
}

type evalSet struct {
	name    string
	dataset        // nil: none
	streams bool   // an EvalStream
	stream  stream // its stream; nil: none
}

func (s evalSet) empty() bool { return s.dataset == nil || s.Len() == 0 }

// stream is a stream without the type of its samples.
type stream interface {
	// newPasses makes a loader, as dataset.newLoader does, and returns its passes.
	newPasses(o data.LoaderOptions, parts *atomic.Int64) (passes, error)
}

// loader is a [BatchLoader] without its type parameter.
type loader struct {
	BatchLoader[any]
	given any // the loader itself, for its optional methods
}

type typedLoader[B any] struct{ BatchLoader[B] }

func (l typedLoader[B]) Epoch(ctx context.Context, epoch, skip int) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		for batch, err := range l.BatchLoader.Epoch(ctx, epoch, skip) {
			if !yield(batch, err) {
				return
			}
		}
	}
}

type typedDataset[S, B any] struct {
	data.Dataset[S]
	step Step[S, B]
}

func (d typedDataset[S, B]) ownLoader(o LoaderOptions) (*loader, error) {
	own, err := d.step.Loader(d.Dataset, o)
	if own == nil || err != nil {
		return nil, err
	}
	return &loader{typedLoader[B]{own}, own}, nil
}

func (d typedDataset[S, B]) newLoader(o data.LoaderOptions, parts *atomic.Int64) (*loader, error) {
	l, err := data.NewLoader(d.Dataset, collateOf(d.step, parts), o)
	if err != nil {
		return nil, err
	}
	return &loader{l, l}, nil
}

func (d typedDataset[S, B]) fingerprint(ctx context.Context) (map[int]string, error) {
	return data.Fingerprint(ctx, d.Dataset, fingerprintSamples, fingerprintLimit)
}

type typedStream[S, B any] struct {
	data.Stream[S]
	step Step[S, B]
}

func (s typedStream[S, B]) newPasses(o data.LoaderOptions, parts *atomic.Int64) (passes, error) {
	l, err := data.NewStreamLoader(s.Stream, collateOf(s.step, parts), o)
	if err != nil {
		return nil, err
	}
	return l.Pass, nil
}

// collateOf returns the step's Collate or, if parts is not nil, a function that divides a batch
// into that many parts.
func collateOf[S, B any](step Step[S, B], parts *atomic.Int64) func([]S) (any, error) {
	if parts == nil {
		return func(samples []S) (any, error) { return step.Collate(samples) }
	}
	return func(samples []S) (any, error) {
		return divide(len(samples), int(parts.Load()), func(begin, end int) (any, error) {
			return step.Collate(samples[begin:end:end])
		})
	}
}

// dataset returns a data set without its type; nil if there is none.
func (t *Trainer[S, B]) dataset(set data.Dataset[S]) dataset {
	if set == nil {
		return nil
	}
	return typedDataset[S, B]{set, t.typed}
}

// stream returns a stream without its type; nil if there is none.
func (t *Trainer[S, B]) stream(s data.Stream[S]) stream {
	if s == nil {
		return nil
	}
	return typedStream[S, B]{s, t.typed}
}

// validation returns what is evaluated without its type; nil if there is nothing.
func (t *Trainer[S, B]) validation(valid data.Dataset[S]) *validation {
	if valid == nil {
		return nil
	}
	sets, several := valid.(EvalSets[S])
	if !several {
		sets = EvalSets[S]{{Set: valid}}
	}
	v := &validation{several: several}
	for _, s := range sets {
		set := evalSet{name: s.Name, dataset: t.dataset(s.Set)}
		if e, ok := s.Set.(EvalStream[S]); ok {
			set.streams, set.stream = true, t.stream(e.Stream)
		}
		v.sets = append(v.sets, set)
	}
	return v
}
