package hezar

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Evaluate runs the model on a data set, nil for Options.EvalDataset, and returns its metrics and
// "loss". Nothing is logged.
func (t *Trainer[S, B]) Evaluate(ctx context.Context, d data.Dataset[S]) (logs Logs, err error) {
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
	failed := torch.Try(func() { logs, err = t.evaluation(ctx, d) })
	return logs, errors.Join(failed, err)
}

func (t *Trainer[S, B]) evaluation(ctx context.Context, d data.Dataset[S]) (Logs, error) {
	loader, err := t.createEvalDataloader(d)
	if err != nil {
		return nil, err
	}
	e := evaluation{keys: t.handler.Keys(), handler: t.handler, byBatch: t.options.Rules.MeanOfBatches,
		meters: map[string]*lossTracker{}}
	if _, err := t.handler.Result(); err != nil { // what an evaluation that failed has left
		return nil, err
	}
	nn.SetTraining(t.model.Model(), false)
	if d.Len() == 0 {
		return e.nothing(), nil
	}
	for b, err := range loader.Batches(ctx) {
		if err != nil {
			return nil, err
		}
		if b, err = t.prepareInputBatch(b); err != nil {
			return nil, err
		}
		torch.InferenceMode(func() {
			torch.Scope(func() {
				var o EvalOutputs
				if o, err = t.evaluationStep(b); err == nil {
					err = e.add(o)
				}
			})
		})
		if err != nil {
			return nil, err
		}
		if f := t.options.Overrides.AfterEvalBatch; f != nil {
			f(t, e.last)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return e.result()
}

// EvaluationStep runs the model on a batch of an evaluation.
func (t *Trainer[S, B]) EvaluationStep(b B) (EvalOutputs, error) {
	o, err := t.forward(b)
	if err != nil {
		return EvalOutputs{}, err
	}
	loss, err := t.computeLoss(o, b)
	if err != nil {
		return EvalOutputs{}, err
	}
	out := EvalOutputs{Predictions: o.Logits[0], Labels: o.Labels[0], Loss: loss, Rows: o.Rows}
	if g, ok := t.model.(Generator[B]); ok && isTrue(t.Config.EvaluateWithGenerate) {
		out.Predictions = g.Generate(t.pass(), b, o)
	}
	return out, nil
}

// evaluation gathers the numbers of a pass.
type evaluation struct {
	keys    []string
	handler MetricsHandler
	byBatch bool // average the batches, each for itself

	meters map[string]*lossTracker
	loss   float64 // of rows
	rows   int
	last   Logs // of the last batch, where they are averaged
}

func (e *evaluation) add(o EvalOutputs) error {
	if err := e.handler.Add(o.Predictions.Detach().ToDevice(torch.Device{}),
		o.Labels.Detach().ToDevice(torch.Device{})); err != nil {
		return fmt.Errorf("hezar: metrics: %w", err)
	}
	loss := o.Loss.Item()
	if !e.byBatch {
		e.loss += loss * float64(o.Rows)
		e.rows += o.Rows
		return nil
	}
	results, err := e.handler.Result()
	if err != nil {
		return err
	}
	results["loss"] = loss
	if e.last, err = e.order(results); err != nil {
		return err
	}
	for _, v := range e.last {
		if e.meters[v.Name] == nil {
			e.meters[v.Name] = &lossTracker{}
		}
		e.meters[v.Name].update(v.Value)
	}
	return nil
}

func (e *evaluation) result() (Logs, error) {
	results := map[string]float64{}
	if e.byBatch {
		for name, meter := range e.meters {
			results[name] = meter.avg
		}
		return e.order(results)
	}
	results, err := e.handler.Result()
	if err != nil {
		return nil, err
	}
	results["loss"] = e.loss / float64(e.rows)
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
