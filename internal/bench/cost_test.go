package main

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// cost is what a step costs that no machine changes.
type cost struct {
	calls  float64 // of C
	allocs float64 // in Go
	bytes  float64 // allocated in Go
}

// costOf trains and counts between two updates. The workloads are those that are timed, on samples
// that are drawn.
func costOf(t *testing.T, name string, warmup, steps int, train func(w workload, r *recorder) error) cost {
	t.Helper()
	testenv.RequireTorch(t)
	live := testenv.Live()
	w := sized(settings{workload: name, warmup: warmup, steps: steps, dropout: -1})
	var calls, allocs, bytes []float64 // in all, after each update
	var m runtime.MemStats
	r := &recorder{workload: w, after: func(update int) {
		// The recorder reads losses at the end of the warm-up, and of the last eleven updates.
		if update > warmup && update < warmup+steps-10 {
			runtime.ReadMemStats(&m)
			calls, allocs = append(calls, float64(runtime.NumCgoCall())), append(allocs, float64(m.Mallocs))
			bytes = append(bytes, float64(m.TotalAlloc))
		}
	}}
	require.NoError(t, train(w, r))
	assert.Equal(t, live, testenv.Live(), "tensors are left")
	return cost{perStep(calls), perStep(allocs), perStep(bytes)}
}

// perStep is the median of the differences: garbage is collected, and epochs begin, in few steps.
func perStep(totals []float64) float64 {
	var steps []float64
	for i := range totals[1:] {
		steps = append(steps, totals[i+1]-totals[i])
	}
	return median(steps)
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

// within fails where a step costs more than it did when the limits were written.
func (c cost) within(t *testing.T, calls, allocs float64) {
	t.Helper()
	t.Logf("%.1f calls of C, %.1f allocations and %.0f bytes in Go", c.calls, c.allocs, c.bytes)
	assert.LessOrEqual(t, c.calls, calls, "calls of C")
	assert.LessOrEqual(t, c.allocs, allocs, "allocations in Go")
}

func TestCostOfAStepOfAnMLP(t *testing.T) {
	// bytes of a sample besides its features: in the list of samples, its class and its place
	const features, rest = 784, 48
	for _, batch := range []int{64, 512} {
		c := mlpCost(t, batch)
		c.within(t, 24, 28)
		assert.LessOrEqual(t, c.bytes, float64(batch*(4*features+rest)+8192), "bytes besides those of the batch")
	}
}

func TestCostOfAStepOfACRNN(t *testing.T) {
	if testing.Short() {
		t.Skip("convolutions take seconds")
	}
	c := costOf(t, "crnn", 1, 21, func(w workload, r *recorder) error {
		torch.ManualSeed(seed)
		model, err := crnn.New(crnn.Config{Charset: strings.Split(" abcdefghij", "")})
		require.NoError(t, err)
		model.UseChannelsLast()
		samples := make(data.Slice[crnn.Sample], 8)
		for i := range samples {
			samples[i] = crnn.Sample{Pixels: make([]float32, 32*128), Text: "abc"}
		}
		w.batch = 2
		return fit(settings{}, w, r, crnn.NewTask(model), samples)
	})
	c.within(t, 134, 195)
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
	c.within(t, 189, 215)
}
