package data

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"sync/atomic"
)

// ErrEmptyBatch is the cause of a [*BatchError] if [LoaderOptions.BadSample] left out every sample
// of a batch.
var ErrEmptyBatch = errors.New("no sample of this batch could be loaded, so there is nothing to train on; fix the " +
	"data or remove the samples from the data set")

var errGoexit = errors.New("the data set or the collate function called runtime.Goexit; " +
	"it must return an error instead")

// Loader delivers the batches of a data set, epoch by epoch. It keeps nothing between epochs and
// may be used by several goroutines at a time.
type Loader[S, B any] struct {
	loader
	dataset Dataset[S]
	collate func([]S) (B, error)
}

// loader is a [Loader] without its type parameters, so that this code is compiled only once, and
// not again for every pair of types. A batch is the *memory in which it was made.
type loader struct {
	size func() int // samples in the data set
	// load makes a batch of the samples whose indices are in w.indices. place tells which sample is
	// being loaded.
	load    func(ctx context.Context, place *atomic.Int64, epoch, number int, w *workspace) (any, error)
	name    func(index int) string // describes a sample
	options LoaderOptions
	pace    pace
}

// NewLoader returns a loader that makes its batches with collate. collate is called by several
// goroutines at a time, with one or more samples. It owns the slice it receives, unless
// [LoaderOptions.ReuseSamples] is set.
func NewLoader[S, B any](d Dataset[S], collate func([]S) (B, error), o LoaderOptions) (*Loader[S, B], error) {
	switch {
	case d == nil:
		return nil, errors.New("data: NewLoader needs a data set, got nil")
	case collate == nil:
		return nil, errors.New("data: NewLoader needs a function that makes a batch of samples, got nil")
	}
	asked := o.Workers > 0 || o.SampleTimeout > 0
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Loader[S, B]{dataset: d, collate: collate}
	l.loader = loader{size: d.Len, load: l.loadBatch, name: func(i int) string { return describe(d, i) }, options: o,
		pace: pace{never: asked || !inMemory(d)}}
	return l, nil
}

// Len returns the number of batches in an epoch. If the loader has a [Shard], it is the number for
// this process.
func (l *loader) Len() int {
	if b, ok := l.options.Order.(Batcher); ok {
		return b.CountBatches(l.size(), l.options.Shard)
	}
	return l.options.Shard.count(l.Samples(), l.options.BatchSize, l.options.DropLast)
}

// Samples returns the number of samples that the order visits in an epoch, including those of a
// dropped last batch.
func (l *loader) Samples() int {
	n := l.size()
	if _, ok := l.options.Order.(Batcher); ok {
		return n
	}
	if c, ok := l.options.Order.(Counter); ok {
		return c.Count(n)
	}
	return n
}

// BatchSize returns the number of samples in every batch except the last.
func (l *loader) BatchSize() int { return l.options.BatchSize }

// Epoch returns the batches of an epoch in order. The first skip batches are left out without
// loading them, for a run that is resumed in the middle of an epoch.
//
// The first error ends the epoch, and is delivered after all batches before it. It is a
// [*SampleError], a [*BatchError], the error that BadSample returned, or that of the context. When
// the range ends, by a break, a panic or at its end, all goroutines of the epoch have ended. For
// that it waits for the samples that are being loaded at that moment, but no longer than
// [LoaderOptions.Patience].
func (l *Loader[S, B]) Epoch(ctx context.Context, epoch, skip int) iter.Seq2[B, error] {
	return func(yield func(B, error) bool) {
		for made, err := range l.epoch(ctx, epoch, skip) {
			var batch, none B
			if m, ok := made.(*memory[S, B]); ok {
				batch, m.batch = m.batch, none
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}

func (l *loader) epoch(ctx context.Context, epoch, skip int) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		next, err := l.plan(epoch, skip)
		if err != nil {
			yield(nil, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		p := &epochCursor{epoch: epoch, next: next, batch: skip, left: l.Len() - skip}
		p.w = newWatch(min(l.options.Workers, l.options.Prefetch+1, p.left))
		e := &shutdown{cancel: cancel, leave: func() error {
			return p.w.leave(l.options.Patience, l.name)
		}}
		defer e.end() //nolint:errcheck // it was logged
		hand := func(batch any, err error) bool {
			if ctx.Err() != nil && (err == nil || errors.Is(err, context.Cause(ctx))) {
				batch, err = nil, e.cancelled(ctx) // both may have been ready: a cancelled run gets no more batches
			}
			return yield(batch, err) && err == nil
		}
		for more := true; more && !p.over; {
			if l.pace.inLine() {
				more = l.inLine(ctx, p, hand)
			} else {
				more = l.byWorkers(ctx, p, hand)
			}
			if more && ctx.Err() != nil { // the workers stopped before the end of the epoch
				yield(nil, e.cancelled(ctx))
				return
			}
		}
	}
}

// inLine makes batches one by one in the consumer's goroutine, as long as they are quick to make;
// see [LoaderOptions.Workers].
func (l *loader) inLine(ctx context.Context, p *epochCursor, hand func(any, error) bool) (more bool) {
	var place atomic.Int64 // not watched, since there is no worker to wait for
	var work workspace
	for l.pace.inLine() {
		j, ok := p.take(&work)
		if !ok {
			return true
		}
		if !hand(l.load(ctx, &place, p.epoch, j.batch, j.workspace)) {
			return false
		}
	}
	return true
}

// byWorkers delivers batches that workers make ahead of their use, until the epoch ends or batches
// become quick enough to be made in line.
func (l *loader) byWorkers(ctx context.Context, p *epochCursor, hand func(any, error) bool) (more bool) {
	ordered, free := l.start(ctx, p)
	for job := range ordered {
		var r result[any]
		select {
		case r = <-job.done:
		case <-ctx.Done():
		}
		if !hand(r.batch, r.err) {
			return false
		}
		free <- job // its worker has finished with it
	}
	return true
}

// plan returns a function that writes the indices of the next batch, beginning with batch skip,
// into the slice it is given. It returns nil after the last batch. Orders that can be generated
// index by index are generated as they are needed (see sequenceOf).
func (l *loader) plan(epoch, skip int) (func(into []int) []int, error) {
	n, count := l.size(), l.Len()
	if skip < 0 || skip > count {
		return nil, fmt.Errorf("data: cannot skip %d batches of an epoch of %d", skip, count)
	}
	if err := check(l.options.Order, n); err != nil {
		return nil, err
	}
	if b, ok := l.options.Order.(Batcher); ok {
		batches, err := l.checked(b.Batches(epoch, n, l.options.Shard), n, count, skip)
		return each(batches), err
	}
	if next := sequenceOf(l.options.Order, epoch, n); next != nil {
		return l.options.Shard.batches(next, n, l.options.BatchSize, l.options.DropLast, skip), nil
	}
	indices, err := indicesOf(l.options.Order, epoch, n)
	if err != nil {
		return nil, err
	}
	return l.options.Shard.batches(sequenceIn(indices), len(indices), l.options.BatchSize, l.options.DropLast, skip), nil
}

// check returns an error if the order cannot be used for a data set of n samples.
func check(o Order, n int) error {
	if c, ok := o.(Checker); ok {
		return c.Check(n)
	}
	return nil
}

// indicesOf returns the indices of an order after checking their number and range.
func indicesOf(o Order, epoch, n int) ([]int, error) {
	indices, want := o.Indices(epoch, n), n
	if c, ok := o.(Counter); ok {
		want = c.Count(n)
	}
	if len(indices) != want {
		return nil, fmt.Errorf("data: order %T returned %d indices for epoch %d of %d samples, want %d", o, len(indices),
			epoch, n, want)
	}
	for k, i := range indices {
		if i < 0 || i >= n {
			return nil, fmt.Errorf("data: order %T returned index %d at position %d of epoch %d, want 0 to %d", o, i, k,
				epoch, n-1)
		}
	}
	return indices, nil
}

// checked checks the batches of a [Batcher] and returns them without the first skip.
func (l *loader) checked(batches [][]int, n, count, skip int) ([][]int, error) {
	if len(batches) != count {
		return nil, fmt.Errorf("data: order %T returned %d batches, want the %d that it counts", l.options.Order,
			len(batches), count)
	}
	for k, batch := range batches {
		if len(batch) == 0 {
			return nil, fmt.Errorf("data: batch %d of order %T is empty", k, l.options.Order)
		}
		for _, i := range batch {
			if i < 0 || i >= n {
				return nil, fmt.Errorf("data: order %T returned index %d in batch %d, want 0 to %d", l.options.Order, i,
					k, n-1)
			}
		}
	}
	return batches[skip:], nil
}

// BatchSamples returns how many samples each batch of an epoch has, including samples that
// LoaderOptions.BadSample leaves out, if the order is a [Batcher]. For other orders it returns nil:
// all batches except the last have BatchSize samples.
func (l *loader) BatchSamples(epoch int) []int {
	b, ok := l.options.Order.(Batcher)
	if !ok {
		return nil
	}
	sizes := []int{}
	for _, batch := range b.Batches(epoch, l.size(), l.options.Shard) {
		sizes = append(sizes, len(batch))
	}
	return sizes
}

// Indices returns the indices of the samples of a batch of an epoch, including those that
// LoaderOptions.BadSample leaves out; nil if there is no such batch. It must not be used with an
// order that differs each time it is called.
func (l *loader) Indices(epoch, batch int) []int {
	batches, err := l.plan(epoch, max(0, batch))
	if err != nil {
		return nil
	}
	return batches(nil)
}

// each returns a function that returns the batches one by one, and nil after the last.
func each(batches [][]int) func(into []int) []int {
	next := 0
	return func(into []int) []int {
		if next == len(batches) {
			return nil
		}
		next++
		return append(into[:0], batches[next-1]...)
	}
}

// epochCursor is the position in an epoch. It is used by one goroutine at a time: by the worker
// whose turn it is, or by the consumer when no worker is running.
type epochCursor struct {
	epoch int
	next  func(into []int) []int
	batch int // the number of the next batch
	left  int // batches
	over  bool
	w     *watch
}

// take plans the next batch, reusing the memory of w.
func (p *epochCursor) take(w *workspace) (j batchPlan, ok bool) {
	indices := p.next(w.indices)
	if indices == nil {
		p.over = true
		return j, false
	}
	w.indices = indices
	p.batch, p.left = p.batch+1, p.left-1
	return batchPlan{p.batch - 1, w}, true
}

// batchPlan is a batch still to be made.
type batchPlan struct {
	batch int
	*workspace
}

// workspace is the memory in which a batch is made; later batches reuse it.
type workspace struct {
	indices []int
	memory  any // a *memory; nil: none yet
}

type memory[S, B any] struct {
	samples []S // with LoaderOptions.ReuseSamples
	batch   B
}

// job is one batch to be made by a worker; done takes its result and never blocks the worker.
type job struct {
	batchPlan
	done chan result[any]
}

type result[T any] struct {
	batch T
	err   error
}

// start starts workers for the rest of an epoch. They take turns: each takes the next job, sends it
// to the returned channel, and only then does it. So the channel has the jobs in order, and its
// capacity bounds how far the workers run ahead. It is closed when the last worker ends: at the end
// of the epoch, or when batches have become quick enough to be made in line. The consumer returns
// used jobs to free.
func (l *loader) start(ctx context.Context, p *epochCursor) (ordered <-chan job, free chan<- job) {
	// The consumer holds one more job than the channel: the one it waits for or uses.
	made := make(chan job, max(0, min(l.options.Prefetch, p.left)))
	used := make(chan job, cap(made)+1+len(p.w.loading))
	turn := make(chan struct{}, 1) // a mutex; sync.Mutex does not count as blocking in testing/synctest
	take := func() (j job, ok bool) {
		turn <- struct{}{}
		defer func() { <-turn }()
		if l.pace.inLine() {
			return j, false
		}
		select {
		case j = <-used:
		default:
			j = job{batchPlan: batchPlan{workspace: new(workspace)}, done: make(chan result[any], 1)}
		}
		if j.batchPlan, ok = p.take(j.workspace); !ok {
			return j, false
		}
		select {
		case made <- j:
			return j, true
		case <-ctx.Done():
			return j, false
		}
	}
	var working atomic.Int64
	working.Store(int64(len(p.w.loading)))
	for k := range p.w.loading {
		p.w.run(func() {
			defer func() { // deferred, since a data set may call runtime.Goexit
				if working.Add(-1) == 0 {
					close(made)
				}
			}()
			for j, ok := take(); ok; j, ok = take() {
				l.do(ctx, &p.w.loading[k], p.epoch, j)
			}
		})
	}
	if len(p.w.loading) == 0 {
		p.over = true
		close(made)
	}
	return made, used
}

// do makes one batch and sends its result, even if the data set ends the goroutine
// (runtime.Goexit), as testing's FailNow does.
func (l *loader) do(ctx context.Context, place *atomic.Int64, epoch int, j job) {
	r, returned := result[any]{}, false
	defer func() {
		if !returned {
			r.err = &BatchError{Epoch: epoch, Batch: j.batch, Indices: j.indices, Err: errGoexit}
		}
		j.done <- r
	}()
	r.batch, r.err = l.load(ctx, place, epoch, j.batch, j.workspace)
	returned = true
}

// loadBatch makes one batch.
func (l *Loader[S, B]) loadBatch(ctx context.Context, place *atomic.Int64, epoch, number int,
	w *workspace) (any, error) {
	began := l.pace.begin()
	m, _ := w.memory.(*memory[S, B])
	if m == nil {
		m = new(memory[S, B])
		w.memory = m
	}
	samples := m.samples[:0]
	if cap(samples) < len(w.indices) {
		samples = make([]S, 0, len(w.indices))
	}
	for _, i := range w.indices {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		place.Store(int64(i) + 1)
		sample, err := l.sample(ctx, epoch, i)
		place.Store(0)
		if err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx) // the run was cancelled; the sample is not bad
			}
			err = &SampleError{Index: i, What: describe(l.dataset, i), Err: err}
			if err := l.options.BadSample(i, err); err != nil {
				return nil, err
			}
			continue
		}
		samples = append(samples, sample)
	}
	if len(samples) == 0 {
		return nil, &BatchError{Epoch: epoch, Batch: number, Indices: w.indices, Err: ErrEmptyBatch}
	}
	batch, err := guard(func() (B, error) { return l.collate(samples) })
	if err != nil { // the epoch ends here, so the error may keep w.indices
		return nil, &BatchError{Epoch: epoch, Batch: number, Indices: w.indices, Err: err}
	}
	if l.options.ReuseSamples {
		clear(samples) // lets them be freed before the next batch
		m.samples = samples
	}
	l.pace.end(began)
	m.batch = batch
	return m, nil
}

// guard calls f and turns a panic into an error.
func guard[T any](f func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			var none T
			v, err = none, &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return f()
}
