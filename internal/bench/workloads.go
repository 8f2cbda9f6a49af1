package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// workload is a training workload.
type workload struct {
	name          string
	batch         int // size of a micro-batch; grpo: completions
	warmup, steps int
	rate          float64
	hidden        int64
	train         func(o settings, w workload, r *recorder) error
	precision     string // empty: fp32

	accumulate int  // micro-batches per update; zero: 1
	logEvery   int  // updates between rows of the log; zero: no log
	memory     int  // updates between memory samples; zero: none
	decay      bool // the rate decays to zero, and gradients are clipped to norm 1

	// For BERT and Llama.
	layers, heads int64
	width         int     // BERT only: length of all batches; zero: that of the longest text in a batch
	dropout       float64 // overridden by -dropout

	paddingFree, fuseQKV bool // optional optimizations, named in the line
}

// workloads are the training workloads, with the sizes for a CPU.
var workloads = map[string]workload{
	"mlp":      {batch: 64, warmup: 100, steps: 1000, rate: 1e-3, hidden: 256, train: trainMLP},
	"mlp_tiny": {batch: 16, warmup: 300, steps: 3000, rate: 1e-3, hidden: 32, train: trainMLP},
	"startup":  {batch: 64, warmup: 0, steps: 1, rate: 1e-3, hidden: 256, train: trainMLP},
	"accum": {batch: 64, warmup: 20, steps: 300, rate: 1e-3, hidden: 256, train: trainMLP, accumulate: 4, logEvery: 10,
		decay: true},
	"soak": {batch: 64, warmup: 500, steps: 19_500, rate: 1e-3, hidden: 256, train: trainMLP, memory: 1950},
	"crnn": {batch: 32, warmup: 3, steps: 20, rate: 1e-3, train: trainCRNN},
	"bert_small": {batch: 32, warmup: 3, steps: 30, rate: 1e-4, hidden: 256, train: trainBERT, layers: 4, heads: 4,
		dropout: 0.1, decay: true},
	"bert_base": {batch: 8, warmup: 1, steps: 5, rate: 5e-5, hidden: 768, train: trainBERT, layers: 12, heads: 12,
		width: 128, dropout: 0.1, decay: true},
	"lm":   {batch: 8, warmup: 3, steps: 30, rate: 1e-3, hidden: 256, train: trainLM, layers: 6, heads: 4, decay: true},
	"sft":  {batch: 8, warmup: 3, steps: 30, rate: 1e-3, hidden: 256, train: trainSFT, layers: 6, heads: 4, decay: true},
	"dpo":  {batch: 8, warmup: 2, steps: 15, rate: 1e-4, hidden: 256, train: trainDPO, layers: 6, heads: 4, decay: true},
	"grpo": {batch: 16, warmup: 2, steps: 15, rate: 1e-4, hidden: 256, train: trainGRPO, layers: 6, heads: 4, decay: true},
}

// sized returns the workload that the flags select, with its settings.
func sized(o settings) workload {
	w := workloads[o.workload]
	w.name = o.workload
	if o.device.IsCUDA() {
		w = w.onGPU()
	}
	if o.tiny {
		w = w.tiny()
	}
	if o.steps > 0 {
		w.steps = o.steps
	}
	if o.warmup >= 0 {
		w.warmup = o.warmup
	}
	if o.batch > 0 {
		w.batch = o.batch
	}
	if o.precision != "" {
		w.precision = o.precision
	}
	if w.precision == "" {
		w.precision = amp.FP32.String()
	}
	if o.dropout >= 0 {
		w.dropout = o.dropout
	}
	w.paddingFree, w.fuseQKV = o.paddingFree, o.fuseQKV
	w.accumulate = max(1, w.accumulate)
	return w
}

func (w workload) onGPU() workload {
	switch w.name {
	case "mlp":
		w.warmup, w.steps = 300, 3000
	case "accum":
		w.warmup, w.steps = 100, 1000
	case "crnn", "bert_small", "lm", "sft", "dpo":
		w.warmup, w.steps = 30, 300
	case "grpo":
		w.warmup, w.steps = 5, 50
	case "bert_base":
		w.warmup, w.steps, w.batch, w.precision = 10, 100, 32, "bf16"
	}
	return w
}

func (w workload) tiny() workload {
	switch {
	case w.name == "startup":
		return w
	case w.name == "soak":
		w.warmup, w.steps, w.memory = 100, 900, 100
	case w.name == "crnn", w.layers > 0:
		w.warmup, w.steps = 1, 4
	default:
		w.warmup, w.steps = 5, 40
	}
	switch w.name {
	case "bert_base", "lm", "sft", "dpo":
		w.layers, w.hidden, w.heads, w.batch = 2, 64, 2, 4
	case "grpo":
		w.layers, w.hidden, w.heads = 2, 64, 2
	}
	return w
}

const seed = 1234

// order is the order used by the programs in other languages: ten permutations in turn.
var order = data.OrderFunc(func(epoch, n int) []int { return data.Permutation(uint64(1000+epoch%10), n) })

// oneEpoch is that order with all epochs joined, so that an accumulation window may cross the end
// of a permutation.
type oneEpoch struct{ batch, batches int }

func (e oneEpoch) Count(int) int { return e.batch * e.batches }

func (e oneEpoch) Indices(_, n int) []int {
	indices := make([]int, 0, e.Count(n))
	for epoch := 0; len(indices) < e.Count(n); epoch++ {
		whole := order(epoch, n)[:n/e.batch*e.batch]
		indices = append(indices, whole[:min(len(whole), e.Count(n)-len(indices))]...)
	}
	return indices
}

// train runs a training workload.
func train(o settings) (map[string]any, error) {
	w := sized(o)
	if o.threads > 0 {
		torch.SetThreads(o.threads)
	}
	r := &recorder{workload: w, losses: o.losses != "", device: o.device}
	if err := w.train(o, w, r); err != nil {
		return nil, err
	}
	if o.losses != "" {
		text, err := json.Marshal(r.all)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(o.losses, text, 0o644); err != nil {
			return nil, err
		}
	}
	return r.line(o)
}

// timed is an engine's step that reports each update to the recorder.
type timed[S, B any] struct {
	*engine.Step[S, B]
	r     *recorder
	taken float64 // losses that the recorder has read since the last row of the log
}

func (t *timed[S, B]) Update(ctx context.Context, rate float64) (bool, error) {
	applied, err := t.Step.Update(ctx, rate)
	if err != nil || !t.r.wants() {
		t.r.updated(math.NaN())
		return applied, err
	}
	report, err := t.Step.Report(ctx)
	t.taken += report.LossSum
	if t.r.measure != nil {
		report.LossSum = t.r.measure()
	}
	t.r.updated(report.LossSum)
	return applied, err
}

// Report is called for the log.
func (t *timed[S, B]) Report(ctx context.Context) (trainer.Report, error) {
	report, err := t.Step.Report(ctx)
	report.LossSum, t.taken = report.LossSum+t.taken, 0
	return report, err
}

// printedLog prints the rows of the log, as the contract requires.
type printedLog struct{ w io.Writer }

func (l printedLog) AfterLog(_ *trainer.Run, row trainer.Logs) error {
	for _, key := range row.Keys() {
		fmt.Fprintf(l.w, "%s %.6g  ", key, row[key])
	}
	_, err := fmt.Fprintln(l.w)
	return err
}

func fit[S, B any](o settings, w workload, r *recorder, task engine.Task[S, B], samples data.Dataset[S]) error {
	precision, err := amp.ParsePrecision(w.precision)
	if err != nil {
		return err
	}
	var schedule lr.Schedule = lr.Constant{}
	clip := -1. // the norm is not computed
	if w.decay {
		schedule, clip = lr.Linear{}, 1
	}
	visit := data.Order(order)
	if w.accumulate > 1 {
		visit = oneEpoch{batch: w.batch, batches: (w.warmup + w.steps) * w.accumulate}
	}
	log, callbacks := trainer.Never, []any(nil)
	if w.logEvery > 0 {
		log, callbacks = trainer.Every(w.logEvery, trainer.Update), []any{printedLog{os.Stderr}}
	}
	step, err := engine.New(task, engine.Options{
		Optimizer: optim.AdamW{LR: w.rate, WeightDecay: new(0.0)}, MaxGradNorm: clip, Precision: precision,
		InitWeightsFrom: o.init, Device: o.device, CuDNNBenchmark: w.name == "crnn" && o.device.IsCUDA(),
		Graphs: engine.Graphs{Kinds: o.graphs}, Prefetch: o.prefetch, DatasetOnDevice: o.datasetOnDevice,
	})
	if err != nil {
		return err
	}
	t, err := trainer.New(&timed[S, B]{Step: step, r: r}, trainer.Options{
		MaxSteps: w.warmup + w.steps, BatchSize: w.batch, Accumulate: w.accumulate, DropLast: true, Order: visit,
		Seed: seed + 1, Schedule: schedule, Eval: trainer.Never, Save: trainer.Never, Log: log,
		Callbacks: callbacks, Progress: io.Discard,
	})
	if err != nil {
		return err
	}
	_, err = t.Fit(context.Background(), samples, nil)
	return err
}
