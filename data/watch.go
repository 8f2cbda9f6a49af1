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

// ErrNeverReturned is the cause of a [*SampleError] about a sample that was being loaded when the
// loader was to end, and that it did not wait for any longer.
var ErrNeverReturned = errors.New("it was still being loaded when the loader ended, and was abandoned")

// watch knows what the goroutines of an epoch are at, and waits for their end.
type watch struct {
	workers sync.WaitGroup
	started bool           // there were any
	loading []atomic.Int64 // of each worker: the sample that it loads and one, or 0
}

func newWatch(workers int) *watch { return &watch{loading: make([]atomic.Int64, workers)} }

// run has f run by a goroutine that is waited for.
func (w *watch) run(f func()) {
	w.started = true
	w.workers.Go(f)
}

// wait returns once all goroutines have ended, or after a while the samples that did not return.
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

// leave waits for the goroutines of an epoch whose context was cancelled. It says so where it gives
// up, and returns that as an error too.
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

// ending leaves an epoch, once.
type ending struct {
	cancel context.CancelFunc
	leave  func() error
	done   bool
	held   error
}

func (e *ending) end() error {
	if !e.done {
		e.done = true
		e.cancel()
		e.held = e.leave()
	}
	return e.held
}

// cancelled is the error of an epoch whose context was cancelled. The goroutines are waited for
// first, so that it names what holds them.
func (e *ending) cancelled(ctx context.Context) error {
	cause := context.Cause(ctx)
	if held := e.end(); held != nil {
		return fmt.Errorf("%w; %w", cause, held)
	}
	return cause
}

// sample loads one sample within its time.
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
		if r.err != nil && ctx.Err() != nil { // the data set has heeded its context
			return none, context.Cause(ctx)
		}
		return r.batch, r.err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}
