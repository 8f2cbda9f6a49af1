package trainer

import (
	"errors"
	"sync"
	"time"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/internal/osthread"
)

// saving is a checkpoint on its way to the disk: the same steps whether the loop waits for it or
// another goroutine takes it there (Options.AsyncSave).
type saving struct {
	step     int    // the update
	saved    int    // the update of the checkpoint before
	path     string // where it will be
	best     string // the checkpoint of the best model, as this one says
	bestStep int
	message  string // of its upload
	async    bool
	spoiled  bool // the weights are not finite

	finish  func() error // writes what has been copied, seals and rotates; touches nothing of the loop's
	rotated error        // older checkpoints could not be deleted

	done     chan struct{} // closed at the end of the goroutine
	err      error         // of finish
	panicked any
}

// start has another goroutine finish the checkpoint, if there was no error so far.
func (v *saving) start(err error) {
	v.done, v.err = make(chan struct{}), err
	if err != nil {
		close(v.done)
		return
	}
	osthread.Brief(func() { // the step's library may leave threads behind on one that stays
		defer close(v.done)
		defer func() { v.panicked = recover() }()
		v.err = v.finish()
	})
}

func (v *saving) ended() bool {
	select {
	case <-v.done:
		return true
	default:
		return false
	}
}

// settle takes in the checkpoint that is under way, on the goroutine of the loop: if it is on the
// disk or has failed, or with wait when it is so far. Several processes do so only where all wait,
// since they have to agree on it.
func (s *saver[S, B]) settle(wait bool) error {
	v := s.underWay
	if v == nil || !wait && (s.several() || !v.ended()) {
		return nil
	}
	s.wait()
	s.underWay = nil
	if v.panicked != nil {
		panic(v.panicked)
	}
	err := s.written(v, v.err)
	if full, ok := errors.AsType[*checkpoint.SpaceError](err); ok {
		s.makeRoom(full)
	}
	if err = s.retryLater(err); err == nil && !wait && s.failed != nil {
		s.loop.Control.ShouldSave = true // of the update that is about to end
	}
	return err
}

// wait returns when the checkpoint that is under way is on the disk, or has failed.
func (s *saver[S, B]) wait() {
	v := s.underWay
	if v == nil || v.ended() {
		return
	}
	began := time.Now()
	<-v.done
	waited := time.Since(began)
	s.waited += waited
	s.o.Logger.Info("waited for a checkpoint to be written", "checkpoint", v.path, "seconds", waited.Seconds())
}

// finish brings the last checkpoint of a run to its end. One that has failed is tried once more,
// since no update follows.
func (s *saver[S, B]) finish() error {
	if s.underWay == nil {
		return nil
	}
	if err := s.settle(true); err != nil || s.failed == nil {
		return err
	}
	return s.save(false)
}

// release waits for what is under way and gives back the memory that it was copied into.
func (s *saver[S, B]) release() error {
	if !s.o.AsyncSave {
		return nil
	}
	s.wait()
	s.passOnWarnings()
	return s.emptyCache()
}

// emptyCache has the step give memory back. It waits for the checkpoint that is under way, since
// what is written of it lies in such memory.
func (s *saver[S, B]) emptyCache() error {
	s.wait()
	return s.stepError("empty the cache", s.step.EmptyCache())
}

// storeWarnings are those of a store that the run has not told of yet. An asynchronous save adds
// some on its goroutine, and only that of the loop may warn.
type storeWarnings struct {
	mu   sync.Mutex
	list []error
}

func (w *storeWarnings) add(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, err)
}

func (w *storeWarnings) take() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.list
	w.list = nil
	return list
}

func (s *saver[S, B]) passOnWarnings() {
	for _, err := range s.storeWarnings.take() {
		s.warn("%v", err)
	}
}
