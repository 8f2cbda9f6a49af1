package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/gpufault"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// watchedStep is a Step that records its passes among the calls of the side stream.
type watchedStep struct {
	*step
	calls *[]string
	fails func(call int) error // returns the error before the pass with number call
	n     int
}

func (w *watchedStep) Train(ctx context.Context, b engine.Examples, win trainer.Window) error {
	*w.calls = append(*w.calls, "train")
	w.n++
	if w.fails != nil {
		if err := w.fails(w.n); err != nil {
			return err
		}
	}
	return w.step.Train(ctx, b, win)
}

func (w *watchedStep) Eval(ctx context.Context, b engine.Examples) error {
	*w.calls = append(*w.calls, "evaluate")
	return w.step.Eval(ctx, b)
}

// prefetching makes a run on the CPU that behaves as on a GPU, and returns what was called in it.
func prefetching(t *testing.T, prefetch bool, o trainer.Options,
	change func(w *watchedStep)) (*watchedStep, []string, error) {
	t.Helper()
	testenv.RequireTorch(t)
	engine.PretendRemote(t)
	calls := engine.PretendSideStream(t)
	torch.SetThreads(1)
	s, err := engine.New(engine.Classify(newNet()), engine.Options{Prefetch: prefetch})
	require.NoError(t, err)
	torch.ManualSeed(3)
	w := &watchedStep{step: s, calls: calls}
	if change != nil {
		change(w)
	}
	o.Log, o.Save, o.Seed = trainer.Never, trainer.Never, 3
	fit, err := trainer.New[data.Example, engine.Examples](w, quiet(o))
	require.NoError(t, err)
	_, err = fit.Fit(t.Context(), ring(10), nil)
	assert.Zero(t, engine.SentAhead(s), "batches are left on the device")
	return w, *calls, err
}

// While a batch is being trained on, the next one has already been sent. The computing stream waits
// for its event before it uses the copies, and each copy is recorded as used there before it is
// freed.
func TestTheNextBatchIsSentBeforeThisOneIsTrained(t *testing.T) {
	live := testenv.Live()
	_, calls, err := prefetching(t, true, trainer.Options{Epochs: 1, BatchSize: 4}, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{
		"send", "mark", "send", "mark", // the first two batches
		"train", "wait 0", "use", "use",
		"send", "mark", // the last batch, of two samples
		"train", "free 0", "wait 1", "use", "use",
		"train", "free 1", "wait 2", "use", "use",
		"free 2",
	}, calls)
	assert.LessOrEqual(t, testenv.Live(), live)
}

// All micro-batches of a window are fetched before training on it.
func TestBatchesOfAWindowAreSentAhead(t *testing.T) {
	_, calls, err := prefetching(t, true, trainer.Options{Epochs: 1, BatchSize: 2, Accumulate: 2}, nil)
	require.NoError(t, err)
	sent, trained := 0, 0
	for _, call := range calls {
		switch call {
		case "send":
			sent++
		case "train":
			trained++
			assert.Greater(t, sent, min(trained, 4), "update %d", trained)
		}
	}
	assert.Equal(t, 5, sent)
	assert.Equal(t, 5, trained)
}

func TestPrefetchHasTheSameBits(t *testing.T) {
	for _, o := range []trainer.Options{{Epochs: 2, BatchSize: 4}, {Epochs: 2, BatchSize: 5, Accumulate: 2},
		{Epochs: 2, BatchSize: 4, DropLast: true, Workers: 2}} {
		plain, calls, err := prefetching(t, false, o, nil)
		require.NoError(t, err)
		assert.NotContains(t, calls, "send")
		ahead, calls, err := prefetching(t, true, o, nil)
		require.NoError(t, err)
		assert.Contains(t, calls, "wait 3")
		assert.Equal(t, fingerprint(plain.step), fingerprint(ahead.step))
	}
}

func TestEvaluationsAreSentAheadToo(t *testing.T) {
	testenv.RequireTorch(t)
	engine.PretendRemote(t)
	calls := engine.PretendSideStream(t)
	s, err := engine.New(engine.Classify(newNet()), engine.Options{Prefetch: true})
	require.NoError(t, err)
	fit, err := trainer.New[data.Example, engine.Examples](&watchedStep{step: s, calls: calls},
		quiet(trainer.Options{Epochs: 1, BatchSize: 4, EvalBatchSize: 5, Save: trainer.Never,
			Eval: trainer.Every(1, trainer.Update)}))
	require.NoError(t, err)
	_, err = fit.Fit(t.Context(), ring(12), ring(10))
	require.NoError(t, err)
	sent := map[string]int{}
	for _, call := range *calls {
		sent[call]++
	}
	assert.Equal(t, 3+3*2, sent["send"])
	assert.Equal(t, 3*2, sent["evaluate"])
	assert.Zero(t, engine.SentAhead(s))
}

// A run that ends early, because of its context or an error, leaves nothing on the device.
func TestARunThatEndsEarlyLeavesNothingSent(t *testing.T) {
	live := testenv.Live()
	ctx, cancel := context.WithCancel(t.Context())
	testenv.RequireTorch(t)
	engine.PretendRemote(t)
	calls := engine.PretendSideStream(t)
	s, err := engine.New(engine.Classify(newNet()), engine.Options{Prefetch: true})
	require.NoError(t, err)
	w := &watchedStep{step: s, calls: calls, fails: func(n int) error {
		if n == 2 {
			cancel()
		}
		return nil
	}}
	fit, err := trainer.New[data.Example, engine.Examples](w, quiet(trainer.Options{Epochs: 9, BatchSize: 2,
		Save: trainer.Never}))
	require.NoError(t, err)
	_, err = fit.Fit(ctx, ring(10), nil)
	require.ErrorIs(t, err, context.Canceled)
	assert.Zero(t, engine.SentAhead(s))

	wrong := errors.New("wrong")
	_, _, err = prefetching(t, true, trainer.Options{Epochs: 1, BatchSize: 2}, func(w *watchedStep) {
		w.fails = func(n int) error {
			if n == 3 {
				return wrong
			}
			return nil
		}
	})
	require.ErrorIs(t, err, wrong)
	assert.LessOrEqual(t, testenv.Live(), live)
}

// If there is no memory for one more batch, it is sent when it is needed; a GPU that fails during a
// copy ends the run.
func TestACopyThatFails(t *testing.T) {
	o := trainer.Options{Epochs: 1, BatchSize: 4}
	plain, _, err := prefetching(t, false, o, nil)
	require.NoError(t, err)
	failing := func(f gpufault.Fault) (*watchedStep, []string, error) {
		engine.FailSideStream(t, func(send func()) {
			stop := f.After(0, false)
			defer stop()
			torch.Ones(1) // fails as the first copy would
			send()
		})
		defer engine.FailSideStream(t, nil)
		return prefetching(t, true, o, nil)
	}
	crowded, calls, err := failing(gpufault.Short)
	require.NoError(t, err)
	assert.NotContains(t, calls, "mark")
	assert.Equal(t, fingerprint(plain.step), fingerprint(crowded.step))

	defer gpufault.Mend()
	_, calls, err = failing(ofCUDA(700, "an illegal memory access was encountered"))
	require.ErrorIs(t, err, torch.ErrDevice)
	assert.Equal(t, run.Device, run.CodeOf(err))
	require.ErrorContains(t, err, "send a batch ahead")
	assert.NotContains(t, calls, "train")
}

func TestPrefetchIsRefusedWhereItHasNothingToDo(t *testing.T) {
	testenv.RequireTorch(t)
	_, err := engine.New(engine.Classify(newNet()), engine.Options{Prefetch: true})
	require.ErrorContains(t, err, "engine: Options.Prefetch is set, but Options.Device is cpu")
	assert.Equal(t, run.Configuration, run.CodeOf(err))

	engine.PretendRemote(t)
	engine.PretendSideStream(t)
	layer := nn.NewLinear(1, 1, nil)
	s, err := engine.New(engine.TaskFunc(layer, func(s []float32) ([][]float32, error) { return [][]float32{s}, nil },
		func(p engine.ForwardPass, b [][]float32) engine.Loss {
			return engine.Mean(layer.Forward(engine.Input(p, b[0], int64(len(b[0])), 1)).Mean(torch.Float32), len(b[0]))
		}), engine.Options{Prefetch: true})
	require.NoError(t, err)
	fit, err := trainer.New(s, quiet(trainer.Options{MaxSteps: 1, Save: trainer.Never}))
	require.NoError(t, err)
	_, err = fit.Fit(t.Context(), data.Slice[float32]{1, 2}, nil)
	require.ErrorContains(t, err, "a [][]float32 holds no slice of numbers in its fields")

	var warnings []string
	w, err := engine.New(engine.Classify(newNet()), engine.Options{Prefetch: true,
		Warn: func(text string) { warnings = append(warnings, text) }})
	require.NoError(t, err)
	for range 2 {
		batch, err := w.Collate(ring(4))
		require.NoError(t, err)
		require.NoError(t, w.Train(t.Context(), batch, trainer.Window{Len: 1, Divisor: 1}))
	}
	require.Len(t, warnings, 1, "a batch that the engine's loader has not made")
	assert.Contains(t, warnings[0], "so none is sent ahead")

	divided, err := trainer.New(w, quiet(trainer.Options{MaxSteps: 1, Save: trainer.Never, DivideOnOutOfMemory: true}))
	require.NoError(t, err)
	_, err = divided.Fit(t.Context(), ring(4), nil)
	require.ErrorContains(t, err, "cannot be divided")
}

// The slices of a batch are found wherever they are in its structs.
func TestSlicesOfABatchAreFound(t *testing.T) {
	type inner struct{ Values []int64 }
	type batch struct {
		inner
		More    *inner
		Nothing *inner
		pixels  []float32
		Flags   []bool
		Texts   []string
		Empty   []float64
		Rows    int
	}
	b := batch{inner{[]int64{1}}, &inner{[]int64{2, 3}}, nil, []float32{4, 5, 6}, []bool{true, false, true, true},
		[]string{"a"}, nil, 7}
	assert.Equal(t, []int{1, 2, 3, 4}, engine.SlicesOf(b))
	assert.Equal(t, []int{2}, engine.SlicesOf([]float32{1, 2}))
	assert.Empty(t, engine.SlicesOf(fmt.Errorf("no numbers")))
}
