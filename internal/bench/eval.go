package main

import (
	"context"
	"io"
	"path/filepath"
	"time"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data/glue"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

const (
	evalBatch = 32
	evalTiny  = 72 // pairs with -tiny
	// bias is added to the bias of the second class, so that an untrained head predicts both
	// classes. It lies in a gap between the differences of logits, so that rounding changes no
	// prediction.
	bias = 0.119534
)

// evaluate evaluates bert_small on the 408 pairs of MRPC's validation set: loss, accuracy and F1.
func evaluate(o settings) (map[string]any, error) {
	if o.threads > 0 {
		torch.SetThreads(o.threads)
	}
	precision := amp.FP32
	if o.precision != "" {
		var err error
		if precision, err = amp.ParsePrecision(o.precision); err != nil {
			return nil, err
		}
	}
	set, err := glue.Open(filepath.Join(o.data, "mrpc"), glue.MRPC)
	if err != nil {
		return nil, err
	}
	samples, err := pairs(o.data, set.Validation)
	if err != nil {
		return nil, err
	}
	passes := 3
	if o.device.IsCUDA() {
		passes = 20
	}
	if o.tiny {
		samples, passes = samples[:evalTiny], 1
	}
	if o.steps > 0 {
		passes = o.steps
	}
	batch := evalBatch
	if o.batch > 0 {
		batch = o.batch
	}
	step, err := evalStep(o, precision)
	if err != nil {
		return nil, err
	}
	t, err := trainer.New(step, trainer.Options{EvalBatchSize: batch, Workers: 1, Progress: io.Discard})
	if err != nil {
		return nil, err
	}
	m, err := t.Evaluate(context.Background(), samples) // the warm-up
	if err != nil {
		return nil, err
	}
	first, begin := sinceStart(), time.Now()
	for range passes {
		if m, err = t.Evaluate(context.Background(), samples); err != nil {
			return nil, err
		}
	}
	return result{workload: o.workload, steps: passes * ((len(samples) + batch - 1) / batch),
		seconds: time.Since(begin).Seconds(), samples: passes * len(samples), firstStep: first,
		first: round(m["loss"], 6), last: round(m["loss"], 6), threads: torch.Threads(),
	}.line(map[string]any{"accuracy": round(m["accuracy"], 6), "f1": round(m["f1"], 6),
		"precision": precision.String(), "device": o.device.String(), "batch": batch,
		"padding_free": o.paddingFree, "fuse_qkv": o.fuseQKV, "sort_by_length": o.sortByLength}), nil
}

func evalStep(o settings, precision amp.Precision) (*classify.Step, error) {
	w := workloads["bert_small"]
	w.dropout, w.paddingFree, w.fuseQKV = 0, o.paddingFree, o.fuseQKV
	torch.ManualSeed(seed)
	model, err := newBERT(w)
	if err != nil {
		return nil, err
	}
	if o.init == "" {
		torch.NoGrad(func() {
			torch.Scope(func() { model.Classifier.Bias.Narrow(0, 1, 1).AddScalar_(bias) })
		})
	}
	task, err := classify.NewTask(model, classify.TaskOptions{
		Metrics: []metrics.Metric[int]{&metrics.Accuracy[int]{}, &metrics.F1{}}})
	if err != nil {
		return nil, err
	}
	return engine.New(task, engine.Options{InitWeightsFrom: o.init, Precision: precision, Device: o.device,
		SortEvalByLength: o.sortByLength})
}
