package hezar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/sharedorder"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Evaluate runs the model on a data set and returns its metrics and "loss". A nil data set means
// Options.EvalDataset. Nothing is logged. With several processes, each evaluates the whole set.
func (t *Trainer[S, B]) Evaluate(ctx context.Context, d data.Dataset[S]) (logs Logs, err error) {
	empty := t.options.Rules.EmptyEvaluation
	if d == nil || empty && d.Len() == 0 { // a set without samples is false in Python
		d = t.options.EvalDataset
	}
	if d == nil || d.Len() == 0 && !empty {
		return nil, refuse("the data set of Evaluate", "empty", "one with samples, or Options.EvalDataset")
	}
	runtime.LockOSThread() // as Train does: libgomp keeps a thread pool for each thread that computes
	defer runtime.UnlockOSThread()
	panicked := torch.Try(func() { logs, err = t.evaluate(ctx, d) })
	if err = loops.Together(t.options.Group, cmp.Or(panicked, err)); err != nil {
		return nil, err
	}
	return logs, nil
}

func (t *Trainer[S, B]) evaluate(ctx context.Context, d data.Dataset[S]) (Logs, error) {
	e := &evaluation{handler: t.handler, byBatch: t.options.Rules.MeanOfBatches, sums: map[string]float64{}}
	loader, err := t.call.CreateEvalDataloader(t, d)
	if err != nil {
		return nil, err
	}
	if d.Len() == 0 {
		return e.order(nil)
	}
	if err := t.join(ctx); err != nil {
		return nil, err
	}
	if r := &t.options.Rules; r.SeedEveryPass {
		if isTrue(t.Config.DataloaderShuffle) {
			torch.ManualSeed(t.seed())
		}
		sharedorder.Draw()
	}
	if t.parallel != nil {
		if err := t.parallel.BeforeForward(context.Background(), false); err != nil { // broadcasts buffers
			return nil, prefixed(err)
		}
	}
	nn.SetTraining(t.model.Model(), false)
	if _, err := e.handler.Result(); err != nil { // discard what a failed evaluation has left
		return nil, err
	}
	line := loops.NewProgress(t.options.Output, "Evaluating:     ", loader.Len)
	for b, err := range loader.Batches(ctx) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = t.evaluateBatch(b, e)
		}
		if err != nil && ctx.Err() != nil {
			return nil, fmt.Errorf("hezar: evaluation interrupted: %w", errors.Join(ctx.Err(), context.Cause(ctx)))
		}
		if err != nil {
			return nil, err
		}
		line.Add()
		t.call.AfterEvalBatch(t, e.last)
	}
	line.End()
	return e.result()
}

func (t *Trainer[S, B]) evaluateBatch(b B, e *evaluation) error {
	b, err := t.call.PrepareInputBatch(t, b)
	if err != nil {
		return err
	}
	torch.InferenceMode(func() {
		torch.Scope(func() {
			var o EvalOutputs
			if o, err = t.call.EvaluationStep(t, b); err == nil {
				err = e.add(o)
			}
		})
	})
	return err
}

// evaluation accumulates the results of a pass.
type evaluation struct {
	handler MetricsHandler
	byBatch bool // average the results of the batches

	sums   map[string]float64 // of the loss over rows, or of all results over batches
	weight float64            // number of rows or batches
	last   Logs               // results of the last batch, if they are averaged
}

func (e *evaluation) add(o EvalOutputs) (err error) {
	if err := e.handler.Add(o.Predictions.Detach().ToDevice(torch.Device{}),
		o.Labels.Detach().ToDevice(torch.Device{})); err != nil {
		return fmt.Errorf("hezar: metrics: %w", err)
	}
	results, weight := map[string]float64{"loss": o.Loss.Item()}, float64(o.Rows)
	if e.byBatch {
		weight = 1
		if err = e.take(results); err != nil {
			return err
		}
	}
	for name, v := range results {
		e.sums[name] += float64(v * weight) // no fused multiply-add, for the same result as in Python
	}
	e.weight += weight
	if e.byBatch {
		e.last, err = e.order(results)
	}
	return err
}

func (e *evaluation) result() (logs Logs, err error) {
	results := map[string]float64{}
	if !e.byBatch {
		if err = e.take(results); err != nil {
			return nil, err
		}
	}
	for name, sum := range e.sums {
		results[name] = sum / e.weight
	}
	return e.order(results)
}

// take adds the results of the metrics handler.
func (e *evaluation) take(results map[string]float64) error {
	found, err := e.handler.Result()
	for _, key := range e.handler.Keys() {
		if v, ok := found[key]; ok {
			results[key] = v
		}
	}
	return err
}

// order sorts results in the order of the handler's keys, followed by the loss. With nil, it
// returns the results of an evaluation without samples.
func (e *evaluation) order(results map[string]float64) (logs Logs, err error) {
	for _, key := range append(slices.Clone(e.handler.Keys()), "loss") {
		v, ok := results[key]
		if !ok && results != nil {
			return nil, fmt.Errorf("hezar: the metrics handler gives no %q, though it is one of its keys", key)
		}
		logs = append(logs, Value{Name: key, Value: v, Integer: results == nil})
	}
	return logs, nil
}
