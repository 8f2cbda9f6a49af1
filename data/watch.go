package data

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// ErrSampleTimeout is the cause of a [*SampleError] about a sample that took longer than
// [LoaderOptions.SampleTimeout].
var ErrSampleTimeout = errors.New("it took longer than LoaderOptions.SampleTimeout")

// ErrNeverReturned is the cause of a [*SampleError] about a sample that was still being loaded when
// the loader had to end, and that the loader stopped waiting for.
var ErrNeverReturned = errors.New("it was still being loaded when the loader ended, and was abandoned")

// watch knows which samples the goroutines of an epoch are loading, and waits for the goroutines to
// end.
type watch struct {
	workers sync.WaitGroup
	started bool           // run was called
	loading []atomic.Int64 // for each worker, the index of the sample it is loading plus one, or 0
}

func newWatch(workers int) *watch { return &watch{loading: make([]atomic.Int64, workers)} }

// run runs f in a goroutine that wait waits for.
func (w *watch) run(f func()) {
	w.started = true
	w.workers.Go(f)
}

// wait waits until all goroutines have ended. If they have not within patience, it returns the
// samples that are still being loaded.
func (w *watch) wait(patience time.Duration) (held []int, ended bool) {
	done := make(chan struct{})
	go func() {
		w.workers.Wait()
		close(done)
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
		return nil, true
	case <-timer.C:
	}
	for k := range w.loading {
		if i := int(w.loading[k].Load()); i > 0 {
			held = append(held, i-1)
		}
	}
	return held, false
}

// leave waits for the goroutines of an epoch whose context was cancelled. If it gives up, it logs
// and returns an error that names the samples.
func (w *watch) leave(patience time.Duration, describe func(i int) string) error {
	if !w.started {
		return nil
	}
	held, ended := w.wait(patience)
	if ended {
		return nil
	}
	var errs []error
	for _, i := range held {
		errs = append(errs, &SampleError{Index: i, What: describe(i), Err: ErrNeverReturned})
	}
	if len(errs) == 0 {
		errs = append(errs, errors.New("data: the collate function has not returned, and was abandoned"))
	}
	err := errors.Join(errs...)
	slog.Warn(err.Error(), "waited", patience)
	return err
}

// shutdown cancels an epoch and waits for its goroutines, once.
type shutdown struct {
	cancel context.CancelFunc
	leave  func() error
	done   bool
	held   error
}

func (e *shutdown) end() error {
	if !e.done {
		e.done = true
		e.cancel()
		e.held = e.leave()
	}
	return e.held
}

// cancelled returns the error of an epoch whose context was cancelled. It waits for the goroutines
// first, so that the error names samples that have not returned.
func (e *shutdown) cancelled(ctx context.Context) error {
	cause := context.Cause(ctx)
	if held := e.end(); held != nil {
		return fmt.Errorf("%w; %w", cause, held)
	}
	return cause
}

// sample loads one sample, within SampleTimeout if that is set.
func (l *Loader[S, B]) sample(ctx context.Context, epoch, i int) (S, error) {
	if limit := l.options.SampleTimeout; limit > 0 {
		return l.sampleWithin(ctx, limit, epoch, i)
	}
	return guard(func() (S, error) { return at(ctx, l.dataset, epoch, i) })
}

// sampleWithin loads one sample in a goroutine of its own, which is left behind if the data set
// does not return.
func (l *Loader[S, B]) sampleWithin(ctx context.Context, limit time.Duration, epoch, i int) (S, error) {
	late := fmt.Errorf("%w, %v", ErrSampleTimeout, limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	done := make(chan result[S], 1)
	go func() {
		r := result[S]{err: errGoexit}
		defer func() { done <- r }()
		r.batch, r.err = guard(func() (S, error) { return at(ctx, l.dataset, epoch, i) })
	}()
	var none S
	select {
	case r := <-done:
		if r.err != nil && ctx.Err() != nil { // the data set returned because its context ended
			return none, context.Cause(ctx)
		}
		return r.batch, r.err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}
