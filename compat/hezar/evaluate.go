package hezar

import (
	"context"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// Evaluate runs the model on a data set, nil for Options.EvalDataset, and returns its metrics and
// "loss". Nothing is logged.
func (t *Trainer[S, B]) Evaluate(ctx context.Context, d data.Dataset[S]) (Logs, error) {
	if d == nil {
		d = t.options.EvalDataset
	}
	empty := t.options.Rules.EmptyEvaluation
	if empty && d != nil && d.Len() == 0 {
		d = t.options.EvalDataset // what Python makes of a set that is false
	}
	if d == nil || d.Len() == 0 && !empty {
		return nil, refuse("the data set of Evaluate", "empty", "one with samples, or Options.EvalDataset")
	}
	if d.Len() == 0 {
		if _, err := t.call.CreateEvalDataloader(t, d); err != nil {
			return nil, err
		}
		return (&evaluation{handler: t.handler}).order(nil)
	}
	st := &step[S, B]{t: t}
	e, err := trainer.New(st, t.evalOptions())
	if err != nil {
		return nil, err
	}
	_, err = e.Evaluate(ctx, d)
	return st.logs, err
}

// evaluation gathers the numbers of a pass.
type evaluation struct {
	handler MetricsHandler
	byBatch bool // average the batches, each for itself

	sums   map[string]float64 // of the loss by rows, or of all numbers by batches
	weight float64            // rows, or batches
	last   Logs               // of the last batch, where they are averaged
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
		e.sums[name] += float64(v * weight) // no fused multiply-add: Python has none
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

// take takes the numbers of the handler, whose loss is not the model's.
func (e *evaluation) take(results map[string]float64) error {
	found, err := e.handler.Result()
	for _, key := range e.handler.Keys() {
		if v, ok := found[key]; ok {
			results[key] = v
		}
	}
	return err
}

// order puts numbers into the order of the handler's keys, the loss last. Without any, they are
// those of an evaluation without samples.
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
