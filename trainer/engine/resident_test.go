package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/gpufault"
	"github.com/gotrainer/gotrainer/internal/stepcount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

const enough = 1 << 20 // enough bytes for every set in this file

// onDevice trains on the ring, with the set on the device or not, and returns what must be the
// same.
func onDevice(t require.TestingT, bytes int64, o trainer.Options, change func(*engine.Options)) string {
	torch.SetThreads(1)
	torch.ManualSeed(3)
	options := engine.Options{DatasetOnDevice: bytes, Warn: func(string) {}}
	if change != nil {
		change(&options)
	}
	s, err := engine.New(engine.Classify(newNet()), options)
	require.NoError(t, err)
	o = quiet(o)
	o.Log, o.Seed = trainer.Never, 3
	fit, err := trainer.New(s, o)
	require.NoError(t, err)
	r, err := fit.Fit(context.Background(), ring(19), ring(7))
	require.NoError(t, err)
	return fmt.Sprint(fingerprint(s), " loss ", r.TrainLoss)
}

func TestASetOnTheDeviceGivesTheSameBits(t *testing.T) {
	testenv.RequireTorch(t)
	live := testenv.Live()
	rapid.Check(t, func(t *rapid.T) {
		o := trainer.Options{Epochs: 2, BatchSize: rapid.SampledFrom([]int{2, 4, 5}).Draw(t, "batch"),
			Accumulate: rapid.IntRange(1, 3).Draw(t, "accumulate"), DropLast: true,
			Workers: rapid.IntRange(0, 3).Draw(t, "workers"), Save: trainer.Never}
		if o.BatchSize != 2 { // batch norm refuses a last batch of one sample
			o.DropLast = rapid.Bool().Draw(t, "drop last")
		}
		require.Equal(t, onDevice(t, 0, o, nil), onDevice(t, enough, o, nil))
	})
	assert.LessOrEqual(t, testenv.Live(), live, "the set is left on the device")
}

func TestARunOverASetOnTheDeviceIsResumed(t *testing.T) {
	testenv.RequireTorch(t)
	for _, accumulate := range []int{1, 2} {
		dir := t.TempDir()
		o := trainer.Options{Epochs: 3, BatchSize: 4, Accumulate: accumulate, Save: trainer.Every(1, trainer.Update),
			OutputDir: dir}
		want := onDevice(t, 0, o, nil)
		o.OutputDir = t.TempDir()
		require.Equal(t, want, onDevice(t, enough, o, nil))
		o.OutputDir = ""
		o.ResumeFrom, o.Save = filepath.Join(dir, "checkpoint-2"), trainer.Never // in the middle of an epoch
		require.Equal(t, onDevice(t, 0, o, nil), onDevice(t, enough, o, nil))
	}
}

// A step sends only the indices of its batch, whatever a sample consists of.
func TestOnlyIndicesAreSent(t *testing.T) {
	testenv.RequireTorch(t)
	for _, remote := range []bool{false, true} {
		sent := func() int { return 0 }
		if remote {
			sent = engine.PretendRemote(t)
		}
		count := func(bytes int64, updates int) stepcount.Counts {
			before := sent()
			c := stepcount.Of(t, func() {
				onDevice(t, bytes, trainer.Options{MaxSteps: updates, BatchSize: 4, Eval: trainer.Never, Save: trainer.Never},
					nil)
			})
			if remote { // leaves the uploads for which the host would wait
				assert.GreaterOrEqual(t, c.Uploads, sent()-before)
				c.Uploads -= sent() - before
			}
			return c
		}
		plain, there := count(0, 8).Each(6, count(0, 2)), count(enough, 8).Each(6, count(enough, 2))
		assert.Equal(t, plain.ReadBacks, there.ReadBacks, "%v, and without %v", there, plain)
		assert.LessOrEqual(t, there.Operators, plain.Operators+4, "%v, and without %v", there, plain)
		if remote {
			assert.Zero(t, there.Uploads)
			continue
		}
		assert.Equal(t, 2, plain.Uploads, "features and classes")
		assert.Equal(t, 1, there.Uploads, "indices")
	}
	before := engine.PretendRemote(t)
	onDevice(t, enough, trainer.Options{Epochs: 2, BatchSize: 5, Eval: trainer.Never, Save: trainer.Never}, nil)
	assert.Equal(t, 2*4, before(), "copies of all steps of two epochs")
}

// The set is read twice, once to be sent and once to be compared, and then batch by batch as usual.
func TestTheSetIsSentOnce(t *testing.T) {
	testenv.RequireTorch(t)
	var reads atomic.Int64
	set := data.Func(10, func(i int) (data.Example, error) {
		reads.Add(1)
		return ring(10)[i], nil
	})
	s, err := engine.New(engine.Classify(newNet()), engine.Options{DatasetOnDevice: enough})
	require.NoError(t, err)
	fit, err := trainer.New(s, quiet(trainer.Options{Epochs: 3, BatchSize: 5, Save: trainer.Never}))
	require.NoError(t, err)
	for range 2 {
		reads.Store(0)
		_, err = fit.Fit(t.Context(), set, nil)
		require.NoError(t, err)
		assert.EqualValues(t, 2*10+3*10, reads.Load())
	}
}

// Graphs take their inputs from the set; Prefetch then sends only evaluations.
func TestASetOnTheDeviceWithGraphsAndPrefetch(t *testing.T) {
	testenv.RequireTorch(t)
	o := trainer.Options{Epochs: 3, BatchSize: 4, Save: trainer.Never, Eval: trainer.Every(1, trainer.Epoch)}
	want := onDevice(t, 0, o, nil)
	engine.PretendGraphs(t)
	assert.Equal(t, want, onDevice(t, enough, o, func(o *engine.Options) { o.Graphs = engine.Graphs{Kinds: 4} }))
	engine.PretendRemote(t)
	calls := engine.PretendSideStream(t)
	assert.Equal(t, want, onDevice(t, enough, o, func(o *engine.Options) { o.Prefetch = true }))
	sent := 0
	for _, call := range *calls {
		if call == "send" {
			sent++
		}
	}
	assert.Equal(t, 3, sent, "one batch of each evaluation")
}

func textClassifier(t *testing.T, padding data.Padding) engine.Task[bert.Sample, bert.Batch] {
	model, err := bert.NewClassifier(bert.Config{VocabSize: 100, HiddenSize: 16, NumLayers: 1, NumHeads: 2,
		IntermediateSize: 32})
	require.NoError(t, err)
	task, err := classify.NewTask(model, classify.TaskOptions{Padding: padding})
	require.NoError(t, err)
	return task
}

func texts(n int) data.Slice[bert.Sample] {
	samples := make(data.Slice[bert.Sample], n)
	for i := range samples {
		samples[i] = bert.Sample{InputIDs: []int64{1, 2, int64(3 + i%90), 4}[:2+i%3], Label: int64(i % 2)}
	}
	return samples
}

// fitOnce trains for two updates.
func fitOnce[S, B any](t *testing.T, task engine.Task[S, B], set data.Dataset[S], o engine.Options) error {
	t.Helper()
	s, err := engine.New(task, o)
	require.NoError(t, err)
	fit, err := trainer.New(s, quiet(trainer.Options{MaxSteps: 2, BatchSize: 4, Save: trainer.Never}))
	require.NoError(t, err)
	_, err = fit.Fit(t.Context(), set, nil)
	return err
}

func TestTextsOfOneLengthLieOnTheDevice(t *testing.T) {
	testenv.RequireTorch(t)
	require.NoError(t, fitOnce(t, textClassifier(t, data.Padding{Length: 8}), texts(300),
		engine.Options{DatasetOnDevice: enough}))
}

func TestSetsThatCannotLieOnTheDeviceAreRefused(t *testing.T) {
	testenv.RequireTorch(t)
	_, err := engine.New(engine.Classify(newNet()), engine.Options{DatasetOnDevice: -1})
	require.ErrorContains(t, err, "Options.DatasetOnDevice is -1; want the bytes")

	there := engine.Options{DatasetOnDevice: enough}
	net := func() engine.Task[data.Example, engine.Examples] { return engine.Classify(newNet()) }
	features := len(ring(1)[0].Features)
	changed := func(e data.Example) (data.Example, error) {
		e.Features = append([]float32{rand.Float32()}, e.Features[1:]...)
		return e, nil
	}
	uneven := ring(10)
	uneven[6].Features = uneven[6].Features[:features-1]
	layer := nn.NewLinear(1, 1, nil)
	for want, err := range map[string]error{
		fmt.Sprintf("the set takes %d bytes (10 samples of Features %d float32, Classes 1 int64), and the limit is 100",
			10*(4*features+8), features): fitOnce(t, net(), ring(10), engine.Options{DatasetOnDevice: 100}),
		"differ from epoch to epoch": fitOnce(t, net(), data.Augment(ring(10), 1,
			func(_ *rand.Rand, e data.Example) (data.Example, error) { return e, nil }), there),
		"Features of sample 0 is not the same when it is read again": fitOnce(t, net(),
			data.Map(ring(10), changed), there),
		"sample 6 of the batch has": fitOnce(t, net(), uneven, there),
		"[]float32 of a batch of 3 samples has 5 numbers, and that of sample 0 alone 1: Collate must place": fitOnce(t,
			engine.TaskFunc(layer, func(s [][]float32) ([]float32, error) { return slices.Concat(s...), nil }, nil),
			data.Slice[[]float32]{{1}, {2, 3}, {4, 5}}, there),
		"a batch of 6 samples has 3 slices of numbers, and that of sample 0 alone has 2": fitOnce(t,
			textClassifier(t, data.Padding{}), texts(6), there),
		"slices of numbers, and that of sample 2 alone has": fitOnce(t, textClassifier(t, data.Padding{Length: 4}), texts(6),
			there),
		"a [][]float32 holds no slice of numbers in its fields": fitOnce(t, engine.TaskFunc(layer,
			func(s []float32) ([][]float32, error) { return [][]float32{s}, nil }, nil), data.Slice[float32]{1, 2}, there),
	} {
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "engine: Options.DatasetOnDevice: ")
		assert.Equal(t, run.Configuration, run.CodeOf(err), want)
	}

	s, err := engine.New(net(), there)
	require.NoError(t, err)
	divided, err := trainer.New(s, quiet(trainer.Options{MaxSteps: 1, Save: trainer.Never, DivideOnOutOfMemory: true}))
	require.NoError(t, err)
	_, err = divided.Fit(t.Context(), ring(4), nil)
	require.ErrorContains(t, err, "cannot be divided")
}

// crowding is a set after whose last sample the device has no memory left.
type crowding struct {
	data.Slice[data.Example]
	reads atomic.Int64
	begin func()
}

func (c *crowding) At(i int) (data.Example, error) {
	c.reads.Add(1)
	return c.Slice.At(i)
}

func (c *crowding) Len() int {
	if c.begin != nil && c.reads.Load() == int64(2*len(c.Slice)) {
		c.begin()
		c.begin = nil
	}
	return len(c.Slice)
}

// If the device has not enough memory for the set, the error is the usual out-of-memory error.
func TestNoMemoryForTheSet(t *testing.T) {
	testenv.RequireTorch(t)
	live := testenv.Live()
	s, err := engine.New(engine.Classify(newNet()), engine.Options{DatasetOnDevice: enough})
	require.NoError(t, err)
	built := testenv.Live() - live
	fit, err := trainer.New(s, quiet(trainer.Options{MaxSteps: 1, BatchSize: 4, Save: trainer.Never}))
	require.NoError(t, err)
	var stop func() int
	_, err = fit.Fit(t.Context(), &crowding{Slice: ring(10), begin: func() { stop = gpufault.Short.After(0, false) }}, nil)
	stop()
	require.ErrorIs(t, err, torch.ErrOutOfMemory)
	require.ErrorContains(t, err, "engine: Options.DatasetOnDevice: ")
	assert.Equal(t, run.OutOfMemory, run.CodeOf(err))
	assert.LessOrEqual(t, testenv.Live(), live+built)
	_, err = fit.Fit(t.Context(), &crowding{Slice: ring(10)}, nil)
	require.NoError(t, err)
}

func TestAStreamIsNotKeptOnTheDevice(t *testing.T) {
	testenv.RequireTorch(t)
	var warnings []string
	s, err := engine.New(engine.Classify(newNet()), engine.Options{DatasetOnDevice: enough,
		Warn: func(text string) { warnings = append(warnings, text) }})
	require.NoError(t, err)
	fit, err := trainer.New(s, quiet(trainer.Options{MaxSteps: 3, BatchSize: 4, Save: trainer.Never}))
	require.NoError(t, err)
	_, err = fit.FitStream(t.Context(), data.StreamOf(ring(12), data.Sequential{}), nil)
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	assert.Contains(t, warnings[0], "so they are sent one by one")
}
