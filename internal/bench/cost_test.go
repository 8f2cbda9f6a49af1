package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// cost is the cost of a step that is the same on every machine.
type cost struct {
	calls   float64 // calls of C functions
	tensors float64 // tensors handed to Go code
	allocs  float64 // allocations in Go
	bytes   float64 // bytes allocated in Go
}

// costOf trains and counts from update to update. The workloads are those that are timed, on random
// samples.
func costOf(t *testing.T, name string, warmup, steps int, train func(w workload, r *recorder) error) cost {
	t.Helper()
	testenv.RequireTorch(t)
	live := testenv.Live()
	w := sized(settings{workload: name, warmup: warmup, steps: steps, dropout: -1})
	var calls, tensors, allocs, bytes []float64 // totals after each update
	var m runtime.MemStats
	r := &recorder{workload: w, after: func(update int) {
		// The recorder reads losses at the end of the warm-up, and those of the last eleven
		// updates.
		if update > warmup && update < warmup+steps-10 {
			runtime.ReadMemStats(&m)
			calls, allocs = append(calls, float64(runtime.NumCgoCall())), append(allocs, float64(m.Mallocs))
			bytes, tensors = append(bytes, float64(m.TotalAlloc)), append(tensors, float64(torch.Made()))
		}
	}}
	require.NoError(t, train(w, r))
	assert.LessOrEqual(t, testenv.Live(), live, "tensors are left")
	return cost{perStep(calls), perStep(tensors), perStep(allocs), perStep(bytes)}
}

// perStep returns the smallest difference: other activity of the process, such as garbage
// collection and measuring the machine's load, only adds to some of them, and to more on a slow
// machine.
func perStep(totals []float64) float64 {
	var steps []float64
	for i := range totals[1:] {
		steps = append(steps, totals[i+1]-totals[i])
	}
	return slices.Min(steps)
}

func mlpCost(t *testing.T, batch int) cost {
	samples := make(data.Slice[data.Example], 8*batch)
	for i := range samples {
		samples[i] = data.Example{Features: make([]float32, 784), Class: int64(i % 10)}
	}
	return costOf(t, "mlp", 10, 112, func(w workload, r *recorder) error {
		w.batch = batch
		r.workload.batch = batch
		return fit(settings{}, w, r, engine.Classify(newMLP(w.hidden)), samples)
	})
}

// within fails the test if a step costs more than the limits.
func (c cost) within(t *testing.T, calls, tensors, allocs float64) {
	t.Helper()
	t.Logf("%.1f calls of C, %.1f tensors, %.1f allocations and %.0f bytes in Go", c.calls, c.tensors, c.allocs, c.bytes)
	assert.LessOrEqual(t, c.calls, calls, "calls of C")
	assert.LessOrEqual(t, c.tensors, tensors, "tensors")
	assert.LessOrEqual(t, c.allocs, allocs, "allocations in Go")
}

func TestCostOfAStepOfAnMLP(t *testing.T) {
	for _, batch := range []int{64, 512} { // batches of 200 kB and 1.6 MB
		c := mlpCost(t, batch)
		c.within(t, 23, 9, 12)
		assert.LessOrEqual(t, c.bytes, 4096., "bytes, however large the batch is")
	}
}

func TestCostOfAStepOfACRNN(t *testing.T) {
	c := costOf(t, "crnn", 2, 33, func(w workload, r *recorder) error {
		torch.ManualSeed(seed)
		// Few channels: in a step that takes long, other activity always adds something.
		model, err := crnn.New(crnn.Config{Charset: strings.Split(" abcdefghij", ""),
			ConvChannels: []int64{4, 4, 8, 8, 8, 8, 8}, RNNDim: 8})
		require.NoError(t, err)
		model.UseChannelsLast()
		samples := make(data.Slice[crnn.Sample], 8)
		for i := range samples {
			samples[i] = crnn.Sample{Pixels: make([]float32, 32*128), Text: "abc"}
		}
		w.batch = 2
		return fit(settings{}, w, r, crnn.NewTask(model), samples)
	})
	c.within(t, 121, 32, 160)
}

func TestCostOfAStepOfABERT(t *testing.T) {
	c := costOf(t, "bert_small", 2, 33, func(w workload, r *recorder) error {
		model, err := newBERT(w)
		require.NoError(t, err)
		task, err := classify.NewTask(model, classify.TaskOptions{})
		require.NoError(t, err)
		random := rand.New(rand.NewPCG(1, 2))
		samples := make(data.Slice[bert.Sample], 32)
		for i := range samples {
			ids := make([]int64, 4+random.IntN(8))
			for k := range ids {
				ids[k] = random.Int64N(1000)
			}
			samples[i] = bert.Sample{InputIDs: ids, TokenTypeIDs: make([]int64, len(ids)), Label: int64(i % 2)}
		}
		w.batch = 2
		return fit(settings{}, w, r, task, samples)
	})
	c.within(t, 187, 125, 160)
}

// counted returns the bytes that a function reads and writes through system calls, and allocates in
// Go.
func counted(t *testing.T, f func() error) (read, written, allocated float64) {
	t.Helper()
	all := func() (r, w, a float64) {
		text, err := os.ReadFile("/proc/self/io")
		if err != nil {
			t.Skipf("what the process reads and writes is not counted here: %v", err)
		}
		_, err = fmt.Sscanf(string(text), "rchar: %g\nwchar: %g", &r, &w)
		require.NoError(t, err)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return r, w, float64(m.TotalAlloc)
	}
	r, w, a := all()
	require.NoError(t, f())
	read, written, allocated = all()
	return read - r, written - w, allocated - a
}

func TestACheckpointIsWrittenAndReadOnceAndNotCopiedInGo(t *testing.T) {
	testenv.RequireTorch(t)
	step, err := engine.New(engine.Classify(newMLP(1024)), engine.Options{Optimizer: optim.AdamW{LR: 1e-3}})
	require.NoError(t, err)
	batch, err := step.Collate([]data.Example{{Features: make([]float32, 784), Class: 1}})
	require.NoError(t, err)
	require.NoError(t, step.Train(t.Context(), batch, trainer.Window{Len: 1, Divisor: 1}))
	_, err = step.Update(t.Context(), 1e-3)
	require.NoError(t, err)

	const rest = 512 << 10 // buffers, headers, names, and what the test itself reads
	for _, async := range []bool{false, true} {
		dir := t.TempDir()
		read, written, allocated := counted(t, func() error {
			var later []func() ([]string, error)
			var o trainer.SaveOptions
			if async {
				o.Later = func(write func() ([]string, error)) { later = append(later, write) }
			}
			err := step.Save(dir, o)
			for _, write := range later {
				_, e := write()
				err = errors.Join(err, e)
			}
			return err
		})
		size := 0.
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, f := range files {
			info, err := f.Info()
			require.NoError(t, err)
			size += float64(info.Size())
		}
		require.Greater(t, size, 12*1.8e6, "weights and two moments")
		t.Logf("async %v: %.0f bytes; %.0f read, %.0f written, %.0f allocated", async, size, read, written, allocated)
		assert.LessOrEqual(t, written, size+rest, "bytes written")
		assert.LessOrEqual(t, read, float64(rest), "bytes read while it is saved")
		assert.LessOrEqual(t, allocated, float64(rest), "bytes in Go while it is saved")

		read, written, allocated = counted(t, func() error { return step.Load(dir, trainer.LoadOptions{}) })
		t.Logf("load: %.0f read, %.0f written, %.0f allocated", read, written, allocated)
		assert.LessOrEqual(t, read, size+rest, "bytes read")
		assert.LessOrEqual(t, allocated, float64(rest), "bytes in Go while it is loaded")
	}
	require.NoError(t, step.EmptyCache())
}
