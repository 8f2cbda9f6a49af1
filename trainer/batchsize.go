package trainer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// AutoFindBatchSize: a run that runs out of memory begins anew with smaller batches.

// fitShrinking runs until memory suffices: find_executable_batch_size of accelerate, which goes
// down by a tenth, rounded down.
func (t *Trainer[S, B]) fitShrinking(ctx context.Context, source func(*fit[S, B]) error) (err error) {
	o := t.options
	t.last = &fit[S, B]{t: t, o: o, ctx: ctx, hooks: t.hooks}
	t.last.newRun()
	if o.ResumeFrom != "" {
		if o.BatchSize, err = o.resumedBatchSize(); err != nil {
			return err
		}
	}
	var begin snapshot
	defer begin.remove()
	var warnings []string
	for first := true; ; first = false {
		f := &fit[S, B]{t: t, o: o, ctx: ctx, hooks: t.hooks, again: !first, begin: &begin, warnings: warnings}
		t.last = f
		err = f.once(source)
		if err == nil || !t.step.OutOfMemory(err) {
			t.options.BatchSize = o.BatchSize // a second Fit need not find it again
			return err
		}
		if f.run.Info.ResumedFrom != "" && !o.Semantics.PositionFromGlobalStep {
			return fmt.Errorf("trainer: the batches of %d with which this run was begun do not fit into memory any "+
				"more, and a resumed run must keep their size: %w", o.BatchSize, err)
		}
		size := int(float64(o.BatchSize) * 0.9)
		if size == 0 {
			return fmt.Errorf("trainer: Options.AutoFindBatchSize: not even a batch of one sample fits into memory: %w",
				err)
		}
		f.note("batches of %d do not fit into memory after update %d; trying %d", o.BatchSize, f.loop.GlobalStep, size)
		o.BatchSize, warnings = size, f.warnings
		if err := errors.Join(f.close(), t.step.EmptyCache()); err != nil {
			return fmt.Errorf("trainer: Options.AutoFindBatchSize: %w", err)
		}
	}
}

// resumedBatchSize is the size that the checkpoint was made with.
func (o *Options) resumedBatchSize() (int, error) {
	from := o.ResumeFrom
	if from == Latest {
		var err error
		if from, err = newestCheckpoint(o.OutputDir); err != nil || from == "" {
			return o.BatchSize, err
		}
	}
	state, _, err := readStates(from)
	if err != nil {
		return 0, err
	}
	if state.TrainBatchSize < 1 {
		return o.BatchSize, nil
	}
	return state.TrainBatchSize, nil
}

// snapshot is the state of the step before the first update, to which a run returns that begins
// anew.
type snapshot struct{ dir string }

func (s *snapshot) remove() {
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// returnToBegin takes the snapshot, or returns to it: then nothing is left of the updates with
// batches that were too large.
func (f *fit[S, B]) returnToBegin() error {
	if f.begin == nil || f.o.Semantics.RetryFromTrained || f.run.Info.ResumedFrom != "" {
		return nil
	}
	switch saves := f.t.step.About().Saves; {
	case !saves && f.again:
		f.warn("%T cannot be saved (its About().Saves is false), so the updates with larger batches stay in its weights",
			f.t.step)
		return nil
	case !saves:
		return nil
	case f.again:
		return f.stepError("return to the begin of the run", f.t.step.Load(f.begin.dir, LoadOptions{}))
	}
	if f.store != nil { // the folder is ours: what a killed run left may go
		old, _ := filepath.Glob(filepath.Join(f.store.Dir(), ".begin-*"))
		for _, dir := range old {
			_ = os.RemoveAll(dir)
		}
	}
	dir, err := os.MkdirTemp(f.o.OutputDir, ".begin-") // "" is the folder for temporary files
	if err != nil {
		return fmt.Errorf("trainer: Options.AutoFindBatchSize: %w", err)
	}
	f.begin.dir = dir
	return f.stepError("save the begin of the run", f.t.step.Save(dir, SaveOptions{}))
}
