package main

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

var quantities = []quantity{
	{"batch", "an update of an MLP 784-256-256-10", "samples of a batch",
		[]int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}, func(n int) (work, cleanup func() error, err error) {
			return updates(engine.Classify(newMLP(256)), vectors(n))
		}},
	{"width", "an update of an MLP of 64 samples", "columns of the hidden layers",
		[]int{16, 32, 64, 128, 256, 512, 1024, 2048}, func(n int) (work, cleanup func() error, err error) {
			return updates(engine.Classify(newMLP(int64(n))), vectors(64))
		}},
	{"length", "an update of a BERT, 2 layers of 128 columns, 8 texts", "tokens of a text",
		[]int{8, 16, 32, 64, 128, 256, 512}, bertUpdates},
	{"samples", "the first batch of 64 of a shuffled epoch, in memory that was used before", "samples of the data set",
		[]int{1e3, 1e4, 1e5, 1e6, 1e7, 1e8}, firstBatch},
	{"checkpoint-save", "a checkpoint written, flushed and read back", "MB of weights",
		[]int{1, 4, 16, 64, 256}, saves},
	{"checkpoint-load", "a checkpoint verified and loaded", "MB of weights", []int{1, 4, 16, 64, 256}, loads},
	{"workers", "an epoch of 64 batches of 16, 50 us of work for a sample", "goroutines of the loader",
		[]int{1, 2, 4, 8, 16}, epochs},
}

func named(name string) (quantity, bool) {
	for _, q := range quantities {
		if q.name == name {
			return q, true
		}
	}
	return quantity{}, false
}

func names() (list []string) {
	for _, q := range quantities {
		list = append(list, q.name)
	}
	return list
}

func nothing() error { return nil }

// mlp is the model of the workload mlp of internal/bench.
type mlp struct {
	FC1 *nn.Linear `module:"fc1"`
	FC2 *nn.Linear `module:"fc2"`
	FC3 *nn.Linear `module:"fc3"`
}

func newMLP(hidden int64) *mlp {
	return &mlp{nn.NewLinear(784, hidden, nil), nn.NewLinear(hidden, hidden, nil), nn.NewLinear(hidden, 10, nil)}
}

// Forward returns the logits.
func (m *mlp) Forward(x torch.Tensor) torch.Tensor {
	return m.FC3.Forward(m.FC2.Forward(m.FC1.Forward(x).ReLU()).ReLU())
}

func vectors(n int) []data.Example {
	samples := make([]data.Example, n)
	for i := range samples {
		samples[i] = data.Example{Features: make([]float32, 784), Class: int64(i % 10)}
		for j := range samples[i].Features {
			samples[i].Features[j] = float32((i*31+j*17)%256) / 256
		}
	}
	return samples
}

// updates trains on the same batch repeatedly.
func updates[S, B any](task engine.Task[S, B], samples []S) (work, cleanup func() error, err error) {
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 1e-4}})
	if err != nil {
		return nil, nil, err
	}
	ctx := context.Background()
	return func() error {
		return step.Around(func() error {
			batch, err := step.Collate(samples)
			if err != nil {
				return err
			}
			if err := step.Train(ctx, batch, trainer.Window{Len: 1, Divisor: 1, LearningRate: 1e-4}); err != nil {
				return err
			}
			_, err = step.Update(ctx, 1e-4)
			step.Recycle(batch)
			return err
		})
	}, nothing, nil
}

func bertUpdates(length int) (work, cleanup func() error, err error) {
	model, err := bert.NewClassifier(bert.Config{VocabSize: 1000, HiddenSize: 128, NumLayers: 2, NumHeads: 2,
		IntermediateSize: 512})
	if err != nil {
		return nil, nil, err
	}
	task, err := classify.NewTask(model, classify.TaskOptions{})
	if err != nil {
		return nil, nil, err
	}
	texts := make([]bert.Sample, 8)
	for i := range texts {
		texts[i] = bert.Sample{InputIDs: make([]int64, length), TokenTypeIDs: make([]int64, length), Label: int64(i % 2)}
		for j := range texts[i].InputIDs {
			texts[i].InputIDs[j] = int64(1 + (i*13+j*7)%999)
		}
	}
	return updates(task, texts)
}

// sum is a collate function that costs almost nothing.
func sum(samples []int) (total int, err error) {
	for _, s := range samples {
		total += s
	}
	return total, nil
}

func firstBatch(n int) (work, cleanup func() error, err error) {
	return func() error {
		loader, err := data.NewLoader(data.Func(n, func(i int) (int, error) { return i, nil }), sum,
			data.LoaderOptions{BatchSize: 64, Order: data.Shuffled{Seed: 42}, Workers: 1, Prefetch: 1})
		if err != nil {
			return err
		}
		for _, err := range loader.Epoch(context.Background(), 0, 0) {
			return err
		}
		return errors.New("the epoch has no batch")
	}, nothing, nil
}

// weights returns a layer of the given size in megabytes.
func weights(megabytes int) *nn.Linear {
	return nn.NewLinear(1<<10, int64(megabytes)<<8, &nn.LinearOptions{NoBias: true})
}

func saveTo(dir string, m *nn.Linear) func() error {
	return func() error {
		return checkpoint.WriteFolder(dir, func(dir string) error {
			return nn.Save(filepath.Join(dir, "model.safetensors"), m, nil)
		})
	}
}

func saves(megabytes int) (work, cleanup func() error, err error) {
	dir, err := os.MkdirTemp("", "growth")
	if err != nil {
		return nil, nil, err
	}
	return saveTo(filepath.Join(dir, "checkpoint"), weights(megabytes)), func() error { return os.RemoveAll(dir) }, nil
}

func loads(megabytes int) (work, cleanup func() error, err error) {
	dir, err := os.MkdirTemp("", "growth")
	if err != nil {
		return nil, nil, err
	}
	m := weights(megabytes)
	folder := filepath.Join(dir, "checkpoint")
	if err := saveTo(folder, m)(); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return func() error {
		if err := checkpoint.Verify(folder); err != nil {
			return err
		}
		_, err := nn.Load(filepath.Join(folder, "model.safetensors"), m, nn.LoadOptions{})
		return err
	}, func() error { return os.RemoveAll(dir) }, nil
}

// epochs loads samples whose only cost is computation.
func epochs(workers int) (work, cleanup func() error, err error) {
	sample := func(i int) (int, error) {
		x := float64(i)
		for range 5000 { // about 50 us
			x = math.Sqrt(x + 1)
		}
		return int(x), nil
	}
	loader, err := data.NewLoader(data.Func(1024, sample), sum, data.LoaderOptions{BatchSize: 16, Workers: workers})
	if err != nil {
		return nil, nil, err
	}
	return func() error {
		for _, err := range loader.Epoch(context.Background(), 0, 0) {
			if err != nil {
				return err
			}
		}
		return nil
	}, nothing, nil
}
