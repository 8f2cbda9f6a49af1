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
		_, err := t.call.CreateEvalDataloader(t, d)
		return (&evaluation{keys: t.handler.Keys()}).nothing(), err
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
	keys    []string
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
	results, weight := map[string]float64{}, float64(o.Rows)
	if e.byBatch {
		if results, err = e.handler.Result(); err != nil {
			return err
		}
		weight = 1
	}
	results["loss"] = o.Loss.Item()
	for name, v := range results {
		e.sums[name] += float64(v * weight) // no fused multiply-add: Python has none
	}
	e.weight += weight
	if e.byBatch {
		e.last, err = e.order(results)
	}
	return err
}

func (e *evaluation) result() (Logs, error) {
	results := map[string]float64{}
	if !e.byBatch {
		var err error
		if results, err = e.handler.Result(); err != nil {
			return nil, err
		}
	}
	for name, sum := range e.sums {
		results[name] = sum / e.weight
	}
	return e.order(results)
}

// nothing is the result of an evaluation without samples.
func (e *evaluation) nothing() (logs Logs) {
	for _, key := range append(slices.Clone(e.keys), "loss") {
		logs = append(logs, Value{Name: key, Integer: true})
	}
	return logs
}

// order puts numbers into the order of the handler's keys, the loss last.
func (e *evaluation) order(results map[string]float64) (logs Logs, err error) {
	for _, key := range append(append([]string{}, e.keys...), "loss") {
		v, ok := results[key]
		if !ok {
			return nil, fmt.Errorf("hezar: the metrics handler gives no %q, though it is one of its keys", key)
		}
		logs = append(logs, Value{Name: key, Value: v})
	}
	return logs, nil
}
