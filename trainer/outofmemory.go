package trainer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/gotrainer/gotrainer/data"
)

// DivideOnOutOfMemory: micro-batches that do not fit into memory are trained in parts, and the run
// continues. Positions, counts and the log remain those of whole micro-batches; only the forward
// and the backward pass work on parts.

type part struct {
	batch   any
	samples int
}

// divider makes and keeps the parts of a window's batches.
type divider struct {
	parts  *atomic.Int64 // parts of each batch; the loader's goroutines read it
	pass   passes
	window [][]part // parts of the batches in runner.window
	stale  bool     // the loader has already made batches with fewer parts

	reported int // batches of the window whose losses have been reported
}

func (r *runner) partsOf(index int) []any {
	if !r.o.DivideOnOutOfMemory {
		return r.window[index : index+1]
	}
	var batches []any
	for _, p := range r.divider.window[index] {
		batches = append(batches, p.batch)
	}
	return batches
}

// divide makes k parts of nearly equal size of a batch of n samples. collate makes the one of the
// samples from begin to end.
func divide(n, k int, collate func(begin, end int) (any, error)) ([]part, error) {
	k = min(n, k)
	parts := make([]part, k)
	for i := range parts {
		begin, end := i*n/k, (i+1)*n/k
		batch, err := collate(begin, end)
		if err != nil {
			return nil, err
		}
		parts[i] = part{batch, end - begin}
	}
	return parts, nil
}

// batches returns passes over whole batches, as the runner counts them. The first part represents
// its batch.
func (d *divider) batches(pass passes) passes {
	d.pass = pass
	return func(ctx context.Context, epoch, skip int) iter.Seq2[data.StreamBatch[any], error] {
		return func(yield func(data.StreamBatch[any], error) bool) {
			for b, err := range pass(ctx, epoch, skip) {
				whole := data.StreamBatch[any]{Samples: b.Samples}
				if err == nil {
					parts := b.Batch.([]part) //nolint:forcetypeassert // made by divide
					d.window = append(d.window, parts)
					whole.Batch = parts[0].batch
				}
				if !yield(whole, err) {
					return
				}
			}
		}
	}
}

// dividedLoader returns a loader of the training set whose batches can be trained in parts.
func (r *runner) dividedLoader(train dataset, o data.LoaderOptions) (*loader, error) {
	own, err := train.ownLoader(LoaderOptions{LoaderOptions: o})
	switch {
	case err != nil:
		return nil, err
	case own != nil:
		return nil, wrong("DivideOnOutOfMemory", true,
			"false, since the batches of the step's own loader %T cannot be divided", own.given)
	}
	return train.newLoader(o, r.divider.parts)
}

// checkDivide refuses options that do not work with divided batches.
func (o *Options) checkDivide() error {
	if !o.DivideOnOutOfMemory {
		return nil
	}
	refuse := func(what string, args ...any) error {
		return wrong("DivideOnOutOfMemory", true, "false with "+what, args...)
	}
	switch {
	case o.AutoFindBatchSize:
		return refuse("AutoFindBatchSize, which starts the run over")
	case o.Process.World > 1:
		return refuse("several processes: the other processes would wait for this one")
	case o.Semantics.CarriesWindows():
		return refuse("Semantics %s, whose windows carry gradients over the end of an epoch", o.Semantics.Name)
	case slices.ContainsFunc(o.Callbacks, has[afterForwardHook]) || (&losses{report: o.Semantics.LossReport}).wanted():
		return refuse("hooks or reports that come between forward and backward")
	}
	return nil
}

// trainDivided trains on the next micro-batch in its parts, and in smaller ones if memory is not
// sufficient.
func (r *runner) trainDivided(w Window) error {
	d := &r.divider
	if r.loop.index == 0 {
		d.reported = 0
		if d.parts.Load() > 1 { // so that the losses of this window can be discarded and computed again
			if err := r.report(); err != nil {
				return err
			}
		}
	}
	err := r.trainParts(w, r.loop.index)
	for err != nil && r.step.OutOfMemory(err) {
		whole := d.parts.Load() == 1
		if e := r.divide(err); e != nil {
			return e
		}
		if err = r.forgetWindow(whole); err == nil {
			err = r.trainAgain(w)
		}
	}
	return err
}

// trainParts trains on the parts of a micro-batch of the window, each with its weight. A part
// without labels is left out, since the mean over its labels is NaN.
func (r *runner) trainParts(w Window, index int) error {
	w.Index, w.Len = 0, 0
	for i, parts := range r.divider.window {
		if w.Len += len(parts); i < index {
			w.Index += len(parts)
		}
	}
	parts := r.divider.window[index]
	weights, all := r.weigh(parts)
	divisor := w.Divisor
	for i, p := range parts {
		if len(parts) > 1 {
			w.Share = weights[i] / all
		}
		if weights[i] > 0 {
			w.Divisor = divisor * (all / weights[i])
			if err := r.step.Train(r.stepCtx, p.batch, w); err != nil {
				return r.stepError(fmt.Sprintf("train on part %d of %d", w.Index+1, w.Len), err)
			}
		}
		w.Index++
	}
	return nil
}

// weigh returns the weights of the parts and their sum. A weight is the number of labels over which
// the mean loss is taken, or of samples if the step counts no labels or there are none.
func (r *runner) weigh(parts []part) (weights []float64, all float64) {
	samples, labels := make([]float64, len(parts)), make([]float64, len(parts))
	allSamples := 0.0
	for i, p := range parts {
		samples[i] = float64(p.samples)
		allSamples += samples[i]
		if len(parts) > 1 {
			labels[i] = float64(r.step.Count(p.batch).Labels)
			all += labels[i]
		}
	}
	if all == 0 {
		return samples, allSamples
	}
	return labels, all
}

func (r *runner) divide(cause error) error {
	parts := r.divider.parts.Load()
	largest := 0
	for _, p := range r.divider.window[r.loop.index] {
		largest = max(largest, p.samples)
	}
	if largest <= 1 {
		return fmt.Errorf("trainer: Options.DivideOnOutOfMemory: not even one sample fits into memory: %w", cause)
	}
	r.divider.parts.Store(2 * parts)
	r.divider.stale = true
	r.warn("batches of %d samples do not fit into memory after update %d: from here on each is trained in %d parts",
		r.o.BatchSize, r.loop.GlobalStep, 2*parts)
	return r.saver.emptyCache()
}

// forgetWindow discards the gradients and losses of the window. If batches were whole, the losses
// of those before the current one are kept: the failed batch has added none.
func (r *runner) forgetWindow(whole bool) error {
	var err error
	if whole {
		err, r.divider.reported = r.report(), r.loop.index
	} else {
		_, err = r.step.Report(r.stepCtx)
	}
	return r.stepError("restart the window", errors.Join(err, r.step.ZeroGrad(), r.fetchAgain()))
}

// trainAgain computes the window again, up to the current micro-batch, since the failed backward
// pass may have added some of its gradients.
func (r *runner) trainAgain(w Window) error {
	for i := range r.loop.index + 1 {
		if i == r.divider.reported && i > 0 {
			if _, err := r.step.Report(r.stepCtx); err != nil {
				return r.stepError("restart the window", err)
			}
		}
		if err := r.trainParts(w, i); err != nil {
			return err
		}
	}
	return nil
}

// fetchAgain loads the batches of the window again, in smaller parts.
func (r *runner) fetchAgain() error {
	r.divider.window = r.divider.window[:0]
	for b, err := range r.divider.pass(r.stepCtx, r.loop.Epoch, r.loop.Micro-r.loop.index) {
		if err != nil {
			return r.stepError("load a batch", err)
		}
		parts := b.Batch.([]part) //nolint:forcetypeassert // made by divide
		if r.divider.window = append(r.divider.window, parts); len(r.divider.window) == len(r.window) {
			return nil
		}
	}
	return r.stepError("load a batch", fmt.Errorf("the loader gave %d batches the second time, %d the first",
		len(r.divider.window), len(r.window)))
}
