package data

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"sync/atomic"
)

// Stream is a source of samples without a known length: PyTorch's IterableDataset. A run goes over
// it pass by pass.
//
// Samples returns the samples of a pass (the first is 0), without the first skip ones. A resumed
// run skips the samples it has already trained on, so skipping should be cheap. A pass must have
// the same samples each time, or a resumed run is not a continuation of the interrupted one. A
// stream that can be read only once has no samples in later passes.
//
// An error takes the place of a sample. If it concerns only that sample, it is marked by
// [OneSample], and the stream continues with the next sample if the range does. Any other error is
// an error of the stream, and the pass may end with it.
//
// Samples is used by one goroutine at a time, which is not that of the training loop.
type Stream[S any] interface {
	Samples(pass, skip int) iter.Seq2[S, error]
}

// StreamFunc makes a [Stream] from a function.
type StreamFunc[S any] func(pass, skip int) iter.Seq2[S, error]

// OneSample marks an error of a [Stream] as one of a single sample, after which the stream
// continues; nil stays nil. The last sample of a pass can be left out (LoaderOptions.BadSample)
// only if its error is marked: a stream that ends after any other error was cut short, and the pass
// fails.
func OneSample(err error) error {
	if err == nil {
		return nil
	}
	return oneSample{err}
}

type oneSample struct{ error }

func (e oneSample) Unwrap() error { return e.error }

func isOneSample(err error) bool {
	_, is := errors.AsType[oneSample](err)
	return is
}

// Samples calls f.
func (f StreamFunc[S]) Samples(pass, skip int) iter.Seq2[S, error] { return f(pass, skip) }

// StreamOf returns the samples of a data set as a stream, in the order of o for each pass; nil
// means [Sequential].
func StreamOf[S any](d Dataset[S], o Order) Stream[S] {
	if o == nil {
		o = Sequential{}
	}
	return StreamFunc[S](func(pass, skip int) iter.Seq2[S, error] {
		return func(yield func(S, error) bool) {
			var none S
			err := check(o, d.Len())
			if skip < 0 {
				err = fmt.Errorf("data: cannot skip %d samples", skip)
			}
			var indices []int
			if err == nil {
				indices, err = indicesOf(o, pass, d.Len())
			}
			if err != nil {
				yield(none, err)
				return
			}
			for _, i := range indices[min(skip, len(indices)):] {
				sample, err := at(context.Background(), d, pass, i)
				if !yield(sample, OneSample(err)) {
					return
				}
			}
		}
	})
}

// MapStream returns the stream of f applied to the samples of s. f is called only by the goroutine
// that reads; work that needs several goroutines should be done in the collate function.
func MapStream[S, T any](s Stream[S], f func(S) (T, error)) Stream[T] {
	return StreamFunc[T](func(pass, skip int) iter.Seq2[T, error] {
		return func(yield func(T, error) bool) {
			for sample, err := range s.Samples(pass, skip) {
				var t T
				if err == nil {
					t, err = f(sample)
					err = OneSample(err)
				}
				if !yield(t, err) {
					return
				}
			}
		}
	})
}

// StreamBatch is a batch of a [Stream] and the number of samples from which it was made.
type StreamBatch[B any] struct {
	Batch   B
	Samples int

	// Round is the number of samples in the corresponding batches of all processes together,
	// without the samples that fill them up. Without a [Shard] it is the number of samples read for
	// the batch.
	Round int
}

// StreamLoader delivers the batches of a [Stream], pass by pass: one goroutine reads, several
// collate, and the batches come in the order of the samples.
type StreamLoader[S, B any] struct {
	streamLoader
	stream  Stream[S]
	collate func([]S) (B, error)
}

// streamLoader is a [StreamLoader] without its type parameters, so that this code is compiled only
// once, and not again for every pair of types. A batch is an any.
type streamLoader struct {
	options LoaderOptions
	// read cuts the samples of a pass into batches and sends them. It returns the error that ends
	// the pass, if any.
	read func(ctx context.Context, place *atomic.Int64, pass, first int, send func(streamJob, error) bool) error
	// work makes batches of jobs.
	work func(pass int, jobs <-chan streamJob)
}

// NewStreamLoader returns a loader that makes its batches with collate, which is called by several
// goroutines at a time. The option Order must be nil, since the stream decides the order.
//
// With a [Shard], every process reads the whole stream, which must be the same for all, and makes
// batches from its own part: DataLoaderDispatcher of Accelerate. Samples that are too few for full
// batches on all processes are divided evenly, in smaller batches; if their number is not a
// multiple of the number of processes, the first samples of the pass fill these batches up. With
// Shard.Uneven they remain whole batches, and some processes get none. With Shard.FullEnd the first
// samples of the pass fill them up to full batches on all processes (IterableDatasetShard).
// DropLast leaves out samples that are too few for a full batch on every process.
func NewStreamLoader[S, B any](s Stream[S], collate func([]S) (B, error), o LoaderOptions) (*StreamLoader[S, B],
	error) {
	switch {
	case s == nil:
		return nil, errors.New("data: NewStreamLoader needs a stream, got nil")
	case collate == nil:
		return nil, errors.New("data: NewStreamLoader needs a function that makes a batch of samples, got nil")
	case o.SampleTimeout != 0:
		return nil, fmt.Errorf("data: LoaderOptions.SampleTimeout is %v; want 0, since a stream hands its samples out "+
			"itself", o.SampleTimeout)
	case o.Order != nil:
		return nil, fmt.Errorf("data: LoaderOptions.Order is %T; want nil, since the order of a stream is its own",
			o.Order)
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &StreamLoader[S, B]{stream: s, collate: collate}
	l.streamLoader = streamLoader{options: o, read: l.readPass, work: l.makeBatches}
	return l, nil
}

// Pass returns the batches of a pass in order, without the first skip ones. At most Prefetch
// batches are finished or in progress ahead of the one in use. Errors, and what has ended when the
// range ends, are as in [Loader.Epoch]. In errors and for BadSample, the index of a sample is its
// position in the pass. If the stream ends with an error that is not marked by [OneSample], the
// pass also ends with it, whatever BadSample returned.
func (l *StreamLoader[S, B]) Pass(ctx context.Context, pass, skip int) iter.Seq2[StreamBatch[B], error] {
	return func(yield func(StreamBatch[B], error) bool) {
		for made, err := range l.pass(ctx, pass, skip) {
			batch, _ := made.Batch.(B) // nil if there is an error, or if B is an interface and the batch is nil
			if !yield(StreamBatch[B]{batch, made.Samples, made.Round}, err) {
				return
			}
		}
	}
}

func (l *streamLoader) pass(ctx context.Context, pass, skip int) iter.Seq2[StreamBatch[any], error] {
	return func(yield func(StreamBatch[any], error) bool) {
		if skip < 0 {
			yield(StreamBatch[any]{}, fmt.Errorf("data: cannot skip %d batches of a pass", skip))
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		w := newWatch(1) // for the reader
		e := &shutdown{cancel: cancel, leave: func() error {
			return w.leave(l.options.Patience, func(int) string { return inPass(pass) })
		}}
		defer e.end() //nolint:errcheck // it was logged
		jobs := l.start(ctx, w, pass, skip)
		for ctx.Err() == nil {
			// A stream that hangs sends nothing more, so both waits also watch the context.
			var r result[StreamBatch[any]]
			select {
			case job, more := <-jobs:
				if !more && ctx.Err() == nil {
					return
				}
				if more {
					select {
					case r = <-job.done:
					case <-ctx.Done():
					}
				}
			case <-ctx.Done():
			}
			if ctx.Err() != nil && (r.err == nil || errors.Is(r.err, context.Cause(ctx))) {
				// Both may have been ready: a cancelled run gets no more batches.
				r = result[StreamBatch[any]]{err: e.cancelled(ctx)}
			}
			if !yield(r.batch, r.err) || r.err != nil {
				return
			}
		}
		yield(StreamBatch[any]{}, e.cancelled(ctx))
	}
}

// streamJob is one batch to be made; done takes its result and never blocks the worker.
type streamJob struct {
	slots any // a []slot
	batch int // number of the batch in this process, from 0 in each pass
	first int // position of the first sample in the pass
	round int
	done  chan result[StreamBatch[any]]
}

// slot is a place in a batch. It stays empty if the sample was bad, so that bad samples do not
// change the count of batches.
type slot[S any] struct {
	sample S
	full   bool
}

// round returns how many samples are dealt out to all processes at a time.
func (l *streamLoader) round() int {
	if s := l.options.Shard; !s.SplitBatches {
		return l.options.BatchSize * max(1, s.WorldSize)
	}
	return l.options.BatchSize
}

// fills returns how many of the first samples of a pass are kept to fill up its end, repeated if
// necessary.
func (l *streamLoader) fills() int {
	if l.options.Shard.FullEnd {
		return l.round()
	}
	return max(1, l.options.Shard.WorldSize)
}

// start starts the reader and the workers of a pass. The returned channel delivers the batches in
// order; its capacity bounds how far they run ahead of their use.
func (l *streamLoader) start(ctx context.Context, w *watch, pass, first int) <-chan streamJob {
	ordered := make(chan streamJob, l.options.Prefetch)
	work := make(chan streamJob)
	for range min(l.options.Workers, l.options.Prefetch+1) {
		w.run(func() { l.work(pass, work) })
	}
	w.run(func() {
		defer close(ordered)
		defer close(work)
		batch := first
		send := func(j streamJob, err error) bool {
			j.batch, j.done = batch, make(chan result[StreamBatch[any]], 1)
			batch++
			if err != nil {
				j.done <- result[StreamBatch[any]]{err: err}
			}
			select {
			case ordered <- j:
			case <-ctx.Done():
				return false
			}
			if err != nil {
				return false
			}
			select {
			case work <- j:
				return true
			case <-ctx.Done():
				return false
			}
		}
		end := errGoexit // sent unless read returns
		defer func() {
			if end != nil {
				send(streamJob{}, end)
			}
		}()
		end = l.read(ctx, &w.loading[0], pass, first, send)
	})
	return ordered
}

// readPass is streamLoader.read.
func (l *StreamLoader[S, B]) readPass(ctx context.Context, place *atomic.Int64, pass, first int,
	send func(streamJob, error) bool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	var begin []slot[S] // first samples of the pass, to fill up its end
	if shard := l.options.Shard; first > 0 && shard.WorldSize > 1 && !shard.Uneven && !l.options.DropLast {
		if begin, err = l.begin(pass, l.fills()); err != nil {
			return err
		}
	}
	size := l.round()
	slots := make([]slot[S], 0, min(size, 1<<12)) // BatchSize may be huge, for all samples in one batch
	deal := func(index int) bool {
		if begin == nil {
			begin = slots[:min(l.fills(), len(slots))]
		}
		part, at := partOf(l.options.Shard, slots, begin, l.options.BatchSize)
		round := len(slots)
		slots = make([]slot[S], 0, round)
		return len(part) == 0 || send(streamJob{slots: part, first: index - round + at, round: round}, nil)
	}
	index := first * size
	place.Store(int64(index) + 1)
	defer place.Store(0)
	var last error // the error that ends the pass if no sample follows
	for sample, e := range l.stream.Samples(pass, index) {
		place.Store(0)
		if ctx.Err() != nil {
			return nil
		}
		if last, err = l.handleBad(pass, index, e); err != nil {
			return err
		}
		slots = append(slots, slot[S]{sample, e == nil})
		if index++; len(slots) == size && !deal(index) {
			return nil
		}
		place.Store(int64(index) + 1) // the next sample is being read
	}
	if last == nil && len(slots) > 0 && !l.options.DropLast {
		deal(index)
	}
	return last
}

// partOf returns the part of a round of samples that this process gets, and its position in the
// round.
func partOf[T any](s Shard, all, begin []T, size int) (part []T, at int) {
	world := max(1, s.WorldSize)
	switch {
	case world == 1:
		return all, 0
	case s.SplitBatches:
		size /= world
	}
	if !s.Uneven && len(all) < size*world {
		if !s.FullEnd {
			size = (len(all) + world - 1) / world
		}
		all = all[:len(all):len(all)]
		for i := 0; len(all) < size*world; i++ {
			all = append(all, begin[i%len(begin)])
		}
	}
	at = min(s.Rank*size, len(all))
	return all[at:min(at+size, len(all))], at
}

// handleBad calls BadSample if a sample could not be read, that is, if err is not nil. The error
// failed ends the pass. The error last ends it only if no sample follows, since the stream was then
// cut short.
func (l *streamLoader) handleBad(pass, index int, err error) (last, failed error) {
	if err == nil {
		return nil, nil
	}
	bad := &SampleError{Index: index, What: inPass(pass), Err: err}
	if failed = l.options.BadSample(index, bad); failed != nil || isOneSample(err) {
		return nil, failed
	}
	return bad, nil
}

func inPass(pass int) string { return fmt.Sprintf("pass %d of the stream", pass) }

// begin reads the first n samples of a pass, for a pass that is resumed in the middle.
func (l *StreamLoader[S, B]) begin(pass, n int) (slots []slot[S], err error) {
	var last error
	for sample, e := range l.stream.Samples(pass, 0) {
		if last, err = l.handleBad(pass, len(slots), e); err != nil {
			return nil, err
		}
		if slots = append(slots, slot[S]{sample, e == nil}); len(slots) == n {
			return slots, nil
		}
	}
	return slots, last
}

// makeBatches is streamLoader.work.
func (l *StreamLoader[S, B]) makeBatches(pass int, jobs <-chan streamJob) {
	var samples []S
	for j := range jobs {
		samples = l.do(pass, j, samples)
	}
}

// do collates one batch and sends its result, even if the collate function ends the goroutine. It
// returns a slice that the next batch may reuse.
func (l *StreamLoader[S, B]) do(pass int, j streamJob, memory []S) []S {
	slots := j.slots.([]slot[S]) //nolint:forcetypeassert // from readPass
	samples := memory[:0]
	if cap(samples) < len(slots) {
		samples = make([]S, 0, len(slots))
	}
	for _, s := range slots {
		if s.full {
			samples = append(samples, s.sample)
		}
	}
	n, err := len(samples), errGoexit
	var batch any
	defer func() {
		r := result[StreamBatch[any]]{batch: StreamBatch[any]{Batch: batch, Samples: n, Round: j.round}}
		if err != nil {
			places := make([]int, len(slots))
			for i := range places {
				places[i] = j.first + i
			}
			r = result[StreamBatch[any]]{err: &BatchError{Epoch: pass, Batch: j.batch, Indices: places, Err: err}}
		}
		j.done <- r
	}()
	if n == 0 {
		err = ErrEmptyBatch
		return memory
	}
	batch, err = guard(func() (any, error) { return l.collate(samples) })
	if !l.options.ReuseSamples {
		return nil
	}
	clear(samples)
	return samples
}
