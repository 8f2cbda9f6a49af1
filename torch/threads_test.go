package torch_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// rounds returns how often tests with goroutines repeat.
func rounds(full int) int {
	if testing.Short() {
		return full / 10
	}
	return full
}

// This test uses no Scope, because it would pin the goroutine instead of the modes.
func TestGradientsAreNeverLostWhileGoroutinesSwitchModes(t *testing.T) {
	testenv.RequireTorch(t)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			w := torch.Full(float32(g+1), 4).RequiresGrad()
			for i := range rounds(300) {
				for _, mode := range []struct {
					name    string
					region  func(func())
					history bool
				}{
					{"NoGrad", torch.NoGrad, false},
					{"InferenceMode", torch.InferenceMode, false},
					{"EnableGrad", torch.EnableGrad, true},
					{"EnableGrad in NoGrad", func(f func()) { torch.NoGrad(func() { torch.EnableGrad(f) }) }, true},
					{"none", func(f func()) { f() }, true},
				} {
					mode.region(func() {
						time.Sleep(time.Microsecond) // the goroutine may continue on another thread, unless it is pinned
						if got := w.MulScalar(2).NeedsGrad(); got != mode.history {
							t.Errorf("goroutine %d, round %d, %s: NeedsGrad is %t", g, i, mode.name, got)
						}
					})
				}
				w.SetGrad(torch.Tensor{})
				w.Square().Sum(0).Backward()
				if grad := w.Grad(); !grad.Defined() || grad.Sum(0).Item() != float64(8*(g+1)) {
					t.Errorf("goroutine %d, round %d: the gradient is %v", g, i, grad)
				}
			}
		})
	}
	wg.Wait()
}

func TestTemporariesSurviveACollectionStorm(t *testing.T) {
	testenv.RequireTorch(t)
	var stop atomic.Bool
	var storm, work sync.WaitGroup
	storm.Go(func() {
		for !stop.Load() {
			runtime.GC()
		}
	})
	before := torch.Live()
	for g := range 4 {
		work.Go(func() {
			x := torch.Full(float32(g), 64)
			for i := range rounds(2000) {
				y := x.Add(x).Mul(torch.Full(float32(3), 64)).Sub(x.MulScalar(5)).Reshape(8, 8).T().Contiguous().Sum(0)
				list := torch.Cat([]torch.Tensor{x.Neg(), x.AddScalar(1)}, 0).Chunk(2, 0)
				if got := y.Item() + list[1].At(0).Item(); got != float64(64*g+g+1) {
					t.Errorf("goroutine %d, round %d: %v", g, i, got)
					return
				}
			}
		})
	}
	work.Wait()
	stop.Store(true)
	storm.Wait()
	if got := settled(); got > before+10 {
		t.Errorf("Live() = %d after all temporaries are garbage, was %d", got, before)
	}
}

func TestErrorsOfManyGoroutinesAreNeverMixed(t *testing.T) {
	testenv.RequireTorch(t)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			n := int64(10 + g)
			for range rounds(2000) {
				torch.Scope(func() {
					a, b := torch.Zeros(2, n), torch.Zeros(n+100, 3)
					err := torch.Try(func() { a.MM(b) })
					want := fmt.Sprintf("torch: MM(float32[2,%d], float32[%d,3]): mat1 and mat2 shapes cannot be "+
						"multiplied (2x%d and %dx3)", n, n+100, n, n+100)
					if err == nil || err.Error() != want {
						t.Errorf("goroutine %d: got %v, want %s", g, err, want)
					}
					runtime.Gosched()
				})
			}
		})
	}
	wg.Wait()
}

func TestManyGoroutinesShareOneTensorForReading(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.Arange(100)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range rounds(300) {
				torch.Scope(func() {
					if s := x.Sum(0).Item(); s != 4950 || x.Numel() != 100 || !strings.HasPrefix(x.String(),
						"tensor([ 0,  1,") {
						t.Errorf("the sum is %v", s)
					}
				})
			}
		})
	}
	wg.Wait()
}

func TestDrawsOfOneGeneratorInterleaveWithoutLoss(t *testing.T) {
	testenv.RequireTorch(t)
	g := torch.NewGenerator(1)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range rounds(500) {
				torch.Scope(func() { torch.TensorOptions{Generator: g}.Rand(16) })
			}
		})
	}
	wg.Wait()
	alone := torch.NewGenerator(1)
	for range 4 * rounds(500) {
		torch.Scope(func() { torch.TensorOptions{Generator: alone}.Rand(16) })
	}
	if string(g.State()) != string(alone.State()) {
		t.Error("the generator is not where as many draws of one goroutine bring it")
	}
}

// All threads share one cache of cast weights, which every thread that leaves autocast empties.
func TestRecurrentGradientsUnderAutocastDoNotDependOnOtherGoroutines(t *testing.T) {
	testenv.RequireTorch(t)
	const steps, batch, width = 12, 2, 8
	o := torch.RNNOptions{HasBiases: true, Layers: 1, Training: true}
	state := torch.Zeros(1, batch, width)
	for name, c := range map[string]struct {
		gates   int64
		forward func(x torch.Tensor, weights []torch.Tensor) torch.Tensor
	}{
		"GRU": {3, func(x torch.Tensor, weights []torch.Tensor) torch.Tensor {
			y, _ := x.GRU(state, weights, o)
			return y
		}},
		"LSTM": {4, func(x torch.Tensor, weights []torch.Tensor) torch.Tensor {
			y, _, _ := x.To(torch.TensorOptions{DType: torch.BFloat16}).LSTM(state, state, weights, o)
			return y
		}},
	} {
		t.Run(name, func(t *testing.T) {
			values := torch.Linspace(-1, 1, steps*batch*width).Cos().View(steps, batch, width).Keep()
			gradients := func() (all []byte) {
				torch.Scope(func() {
					var weights []torch.Tensor
					for _, shape := range [][]int64{{c.gates * width, width}, {c.gates * width, width}, {c.gates * width},
						{c.gates * width}} {
						w := torch.Linspace(-3, 3, shape[0]*append(shape, 1)[1]).Sin().View(shape...).Clone()
						weights = append(weights, w.RequiresGrad())
					}
					var loss torch.Tensor
					torch.Autocast(torch.CPU, torch.BFloat16, true, true, func() {
						loss = c.forward(values, weights).To(torch.TensorOptions{DType: torch.Float32}).Square().Sum(0)
					})
					loss.Backward()
					for _, w := range weights {
						all = append(all, w.Grad().Bytes()...)
					}
				})
				return all
			}
			want := gradients()
			var wg sync.WaitGroup
			var differ atomic.Int64
			for range 8 {
				wg.Go(func() {
					for range rounds(50) {
						if !bytes.Equal(want, gradients()) {
							differ.Add(1)
						}
					}
				})
			}
			wg.Wait()
			assert.Zero(t, differ.Load(), "of %d passes", 8*rounds(50))
		})
	}
}
