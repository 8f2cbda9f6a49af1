package trainer

import (
	"errors"
	"slices"
)

// fetch trains on the windows of an epoch, within the hooks that want to be around it.
func (f *fit[S, B]) fetch(body func() bool) error {
	var failed error // of the training itself, which no hook can undo
	begun := 0
	train := func() error {
		if begun++; begun > 1 {
			return errTrainedTwice
		}
		failed = f.fetchEpoch(body)
		return errors.Join(failed, f.loop.err)
	}
	for _, h := range slices.Backward(f.hooks.aroundEpoch) {
		inner := train
		train = func() error {
			f.show()
			calls := begun
			err := call(f.run, []AroundEpochHook{h}, "AroundEpoch", func(h AroundEpochHook) error {
				err := h.AroundEpoch(f.run, func() error {
					f.loop.Control = f.run.Control
					defer f.show()
					return inner()
				})
				if err == nil && begun == calls {
					err = errNotTrained
				}
				return err
			})
			f.loop.Control = f.run.Control
			return err
		}
	}
	err := train()
	if failed != nil || f.loop.err != nil {
		return failed
	}
	return f.stop(err)
}

var (
	errNotTrained   = errors.New("it has not called train, by which the epoch is trained on")
	errTrainedTwice = errors.New("trainer: an AroundEpoch hook has called train twice; an epoch is trained on once")
)
