package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/cgotorch"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/torch/cuda"
)

// onGraphs runs a test on a CPU that records and replays like a GPU, and on a GPU if there is one.
func onGraphs(t *testing.T, test func(t *testing.T, d torch.Device)) {
	testenv.RequireTorch(t)
	t.Run("recorded on the CPU", func(t *testing.T) {
		require.NoError(t, torch.Load())
		cgotorch.PretendGraphs(true)
		defer cgotorch.PretendGraphs(false)
		test(t, torch.CPU)
	})
	t.Run("on a GPU", func(t *testing.T) {
		testenv.RequireCUDA(t)
		test(t, torch.CUDA(0))
	})
}

func TestAGraphComputesOnlyWhenItIsReplayed(t *testing.T) {
	onGraphs(t, func(t *testing.T, d torch.Device) {
		g := cuda.NewGraph(d)
		defer g.Free()
		x, sum := torch.TensorOptions{Device: d}.Ones(3).Keep(), torch.TensorOptions{Device: d}.Zeros(3).Keep()
		var y torch.Tensor
		factor := 2.0
		g.Capture(cuda.CaptureOptions{}, func() {
			torch.Scope(func() {
				y = x.MulScalar(factor).ReLU().Keep()
				sum.Add_(y)
			})
		})
		assert.Equal(t, []float32{0, 0, 0}, torch.Values[float32](sum), "nothing is computed before the first replay")
		factor = 100 // the graph has captured the old value
		for k := range 3 {
			x.Fill_(float64(k + 1))
			g.Replay()
			assert.Equal(t, float32(2*(k+1)), torch.Values[float32](y)[0])
		}
		assert.Equal(t, []float32{12, 12, 12}, torch.Values[float32](sum))
		other := cuda.NewGraph(d)
		defer other.Free()
		other.Capture(cuda.CaptureOptions{Pool: g.Pool()}, func() { sum.Zero_() })
		other.Replay()
		assert.Equal(t, []float32{0, 0, 0}, torch.Values[float32](sum))
		g.Reset()
		require.ErrorIs(t, torch.Try(g.Replay), torch.ErrInvalid)
		require.ErrorIs(t, torch.Try(func() { g.Pool() }), torch.ErrInvalid)
		g.Capture(cuda.CaptureOptions{}, func() { sum.AddScalar_(1) })
		g.Replay()
		assert.Equal(t, []float32{1, 1, 1}, torch.Values[float32](sum))
	})
}

// Replays draw the same numbers as the calls would, and a replayed backward pass computes the same
// gradients.
func TestAReplayHasTheBitsOfTheCalls(t *testing.T) {
	onGraphs(t, func(t *testing.T, d torch.Device) {
		run := func(captured bool) (losses []float64, gradient []float32) {
			torch.ManualSeed(3)
			w := torch.TensorOptions{Device: d}.Full(0.5, 4, 4).RequiresGrad()
			list := torch.NewList(w)
			x := torch.TensorOptions{Device: d}.Ones(8, 4).Keep()
			var loss, grad torch.Tensor
			pass := func() {
				loss = x.Linear(w, torch.Tensor{}).Dropout(0.5, true).Sum(torch.DefaultDType)
				loss.Backward()
			}
			g := cuda.NewGraph(d)
			defer g.Free()
			for k := range 6 {
				torch.Scope(func() {
					x.Fill_(float64(k))
					switch {
					case !captured || k < 2:
						list.ZeroGrad(false)
						pass()
						losses, grad = append(losses, loss.Item()), w.Grad().Keep()
						return
					case k == 2:
						list.ZeroGrad(false)
						g.Capture(cuda.CaptureOptions{}, func() {
							pass()
							loss = loss.Detach().Keep()
						})
						grad = w.Grad().Keep()
					}
					g.Replay()
					losses = append(losses, loss.Item())
				})
			}
			return losses, torch.Values[float32](grad)
		}
		losses, gradient := run(false)
		gotLosses, gotGradient := run(true)
		assert.Equal(t, losses, gotLosses)
		assert.Equal(t, gradient, gotGradient)
	})
}

func TestWhatReadsANumberBackCannotBeCaptured(t *testing.T) {
	onGraphs(t, func(t *testing.T, d torch.Device) {
		g := cuda.NewGraph(d)
		defer g.Free()
		x := torch.TensorOptions{Device: d}.Ones(3).Keep()
		torch.ManualSeed(4)
		want := torch.DefaultGenerator(d).State()
		err := torch.Try(func() {
			g.Capture(cuda.CaptureOptions{}, func() {
				x.Add_(x.Dropout(0.5, true))
				x.Sum(torch.DefaultDType).Item()
			})
		})
		require.ErrorIs(t, err, torch.ErrNotSupported)
		require.ErrorContains(t, err, "capturing")
		assert.False(t, torch.DeviceFailed())
		assert.Equal(t, want, torch.DefaultGenerator(d).State(), "the generator has its former state")
		assert.Equal(t, []float32{1, 1, 1}, torch.Values[float32](x))
		require.ErrorContains(t, torch.Try(g.Replay), "Capture something first")
		x.Dropout(0.5, true) // draws, as before
		g.Capture(cuda.CaptureOptions{}, func() { x.Add_(x) })
		g.Replay()
		assert.Equal(t, []float32{2, 2, 2}, torch.Values[float32](x))
	})
}

func TestMisuseOfAGraphIsNamed(t *testing.T) {
	onGraphs(t, func(t *testing.T, d torch.Device) {
		g := cuda.NewGraph(d)
		x := torch.TensorOptions{Device: d}.Ones(3).Keep()
		require.ErrorContains(t, torch.Try(g.Replay), "the graph is empty")
		g.Capture(cuda.CaptureOptions{}, func() { x.Add_(x) })
		err := torch.Try(func() { g.Capture(cuda.CaptureOptions{}, func() {}) })
		require.ErrorContains(t, err, "Reset it first")
		g.Free()
		g.Free()
		require.ErrorIs(t, torch.Try(g.Replay), torch.ErrFreed)
		require.ErrorIs(t, torch.Try(g.Reset), torch.ErrFreed)
	})
}

func TestCallsThatWaitCanBeRefused(t *testing.T) {
	onGraphs(t, func(t *testing.T, d torch.Device) {
		defer cuda.SetSyncDebugMode(cuda.SyncAllowed)
		assert.Equal(t, cuda.SyncAllowed, cuda.SyncDebugMode())
		cuda.SetSyncDebugMode(cuda.SyncRefused)
		assert.Equal(t, cuda.SyncRefused, cuda.SyncDebugMode())
		require.ErrorIs(t, torch.Try(func() { cuda.SetSyncDebugMode(3) }), torch.ErrValue)
		if d.IsCUDA() {
			require.Error(t, torch.Try(func() { torch.TensorOptions{Device: d}.Ones(1).Item() }))
		}
	})
}
