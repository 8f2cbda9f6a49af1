package trainer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// AutoFindBatchSize: a run that runs out of memory starts over with smaller batches.

// fitShrinking runs with smaller and smaller batches until they fit into memory, like
// find_executable_batch_size of accelerate: each size is nine tenths of the one before, rounded
// down.
func (t *core) fitShrinking(ctx context.Context, source func(*runner) error) (err error) {
	o := t.options
	t.last = t.newRunner(ctx, o)
	if o.ResumeFrom != "" {
		if o.BatchSize, err = o.resumedBatchSize(); err != nil {
			return err
		}
	}
	begin := ""
	defer func() { _ = os.RemoveAll(begin) }() // does nothing if begin is ""
	var warnings []string
	for first := true; ; first = false {
		r := t.newRunner(ctx, o)
		r.saver.again, r.begin, r.warnings = !first, &begin, warnings
		t.last = r
		err = r.once(source)
		if err == nil || !t.step.OutOfMemory(err) {
			t.options.BatchSize = o.BatchSize // so that a second Fit need not find it again
			return err
		}
		if r.run.Info.ResumedFrom != "" && !o.Semantics.PositionFromGlobalStep {
			return fmt.Errorf("trainer: this run was started with batches of %d, which no longer fit into memory, "+
				"and a resumed run must keep that size: %w", o.BatchSize, err)
		}
		size := int(float64(o.BatchSize) * 0.9)
		if size == 0 {
			return fmt.Errorf("trainer: Options.AutoFindBatchSize: not even a batch of one sample fits into memory: %w", err)
		}
		r.note("batches of %d do not fit into memory after update %d; trying %d", o.BatchSize, r.loop.GlobalStep, size)
		o.BatchSize, warnings = size, r.warnings
		if err := errors.Join(r.close(), t.step.EmptyCache()); err != nil {
			return fmt.Errorf("trainer: Options.AutoFindBatchSize: %w", err)
		}
	}
}

// resumedBatchSize returns the batch size that the checkpoint was made with.
func (o *Options) resumedBatchSize() (int, error) {
	from := o.ResumeFrom
	if from == Latest {
		var err error
		if from, err = newestCheckpoint(o.OutputDir); err != nil || from == "" {
			return o.BatchSize, err
		}
	}
	var state savedState
	var err error
	if fromTransformers(from) {
		state, err = readTransformersState(from)
	} else {
		state, _, err = readStates(from)
	}
	if err != nil {
		return 0, err
	}
	return cmp.Or(max(0, state.TrainBatchSize), o.BatchSize), nil
}

// returnToBegin saves the state of the step before the first update or, in a later attempt,
// restores it, so that nothing remains of updates with batches that were too large.
func (r *runner) returnToBegin() error {
	if r.begin == nil || r.o.Semantics.RetryFromTrained || r.run.Info.ResumedFrom != "" {
		return nil
	}
	switch saves := r.step.About().Saves; {
	case !saves && r.saver.again:
		r.warn("%T cannot be saved (its About().Saves is false), so its weights keep the updates made with "+
			"larger batches",
			r.step.given)
		return nil
	case !saves:
		return nil
	case r.saver.again:
		return r.stepError("return to the start of the run", r.step.Load(*r.begin, LoadOptions{}))
	}
	if r.saver.store != nil { // this process has locked the folder, so what a killed run left there can be deleted
		old, _ := fs.Glob(os.DirFS(r.saver.store.Dir()), ".begin-*")
		for _, name := range old {
			_ = os.RemoveAll(filepath.Join(r.saver.store.Dir(), name))
		}
	}
	dir, err := os.MkdirTemp(r.o.OutputDir, ".begin-") // an empty OutputDir means the system's folder for temporary files
	if err != nil {
		return fmt.Errorf("trainer: Options.AutoFindBatchSize: %w", err)
	}
	*r.begin = dir
	return r.stepError("save the start of the run", r.step.Save(dir, SaveOptions{}))
}
