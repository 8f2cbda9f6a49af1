package trainer

import (
	"errors"
	"sync"
	"time"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/internal/osthread"
)

// saving is the save of a checkpoint. Its steps are the same whether the loop waits for it or
// another goroutine finishes it (Options.AsyncSave).
type saving struct {
	step     int    // the update that is saved
	saved    int    // the update of the previous checkpoint
	path     string // the folder of the checkpoint
	best     string // the checkpoint of the best model, as recorded in this one
	bestStep int
	message  string // of the checkpoint's upload
	async    bool
	spoiled  bool // the weights are not finite

	// writes what has been copied, seals it and deletes old checkpoints; does not touch the loop's
	// state
	finish  func() error
	rotated error // the error if older checkpoints could not be deleted

	done     chan struct{} // closed when the goroutine ends
	err      error         // result of finish
	panicked any
}

// start finishes the checkpoint in another goroutine, unless there was an error before.
func (v *saving) start(err error) {
	v.done, v.err = make(chan struct{}), err
	if err != nil {
		close(v.done)
		return
	}
	// on a thread that ends afterwards, and with it the threads that the step's library keeps for
	// it
	osthread.Brief(func() {
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

// settle completes the save in progress, on the goroutine of the loop: if it has ended or, with
// wait, when it has. Several processes complete it only where they all wait, since they have to
// agree on the result.
func (s *saver) settle(wait bool) error {
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
		s.loop.Control.ShouldSave = true // for the update that is about to end
	}
	return err
}

// wait returns when the save in progress has ended.
func (s *saver) wait() {
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

// finish completes the last save of a run. If it has failed, it is tried once more, since no update
// follows.
func (s *saver) finish() error {
	if s.underWay == nil {
		return nil
	}
	if err := s.settle(true); err != nil || s.failed == nil {
		return err
	}
	return s.save(false)
}

// release waits for the save in progress and frees the memory of its copy.
func (s *saver) release() error {
	if !s.o.AsyncSave {
		return nil
	}
	s.wait()
	s.passOnWarnings()
	return s.emptyCache()
}

// emptyCache makes the step return memory to the device. It waits for the save in progress, since
// its copy is in such memory.
func (s *saver) emptyCache() error {
	s.wait()
	return s.stepError("empty the cache", s.step.EmptyCache())
}

// storeWarnings are the warnings of a store that have not been reported yet. An asynchronous save
// adds some on its own goroutine, but only that of the loop may warn.
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

func (s *saver) passOnWarnings() {
	for _, err := range s.storeWarnings.take() {
		s.warn("%v", err)
	}
}
