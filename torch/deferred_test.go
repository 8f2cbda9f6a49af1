package torch_test

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

type tensors = []torch.Tensor

// same compares bit for bit on processors that compute the same numbers as the one that recorded
// them.
func same(t *testing.T, g *golden.File, key string, got torch.Tensor) {
	t.Helper()
	golden.Recorded(t, key, got, g.Tensor(key))
}

func TestCheckpointsGiveTheBitsOfTorchUtilsCheckpoint(t *testing.T) {
	testenv.RequireTorch(t)
	g := golden.Load(t, "testdata/autograd.safetensors")
	for _, c := range []struct {
		name                    string
		autocast, plain, scoped bool
	}{
		{"checkpoint", false, false, false}, {"checkpoint", false, true, false}, {"checkpoint", false, false, true},
		{"autocast", true, false, false}, {"autocast", true, true, false},
	} {
		t.Run(fmt.Sprintf("%s/plain=%t/scoped=%t", c.name, c.plain, c.scoped), func(t *testing.T) {
			checkpoint := torch.Checkpoint
			if c.plain {
				checkpoint = func(f func(tensors) tensors, in ...torch.Tensor) tensors { return f(in) }
			}
			x := g.Tensor("x").Clone().RequiresGrad()
			var ws tensors
			for i := range 3 {
				ws = append(ws, g.Tensor(fmt.Sprintf("w%d", i)).Clone().RequiresGrad())
			}
			block := func(w torch.Tensor) func(tensors) tensors {
				return func(in tensors) tensors {
					return tensors{in[0].Add(in[0].Linear(w, torch.Tensor{}).Tanh().Dropout(0.4, true))}
				}
			}
			last := func(in tensors) tensors {
				return block(ws[2])(tensors{checkpoint(block(ws[1]), in[0])[0].Mul(in[1])})
			}
			run := func() {
				torch.ManualSeed(7)
				var y torch.Tensor
				torch.Autocast(torch.CPU, torch.DefaultDType, c.autocast, true, func() {
					h := checkpoint(block(ws[0]), x)[0]
					y = checkpoint(last, h, x.Sigmoid())[0].Add(h)
				})
				same(t, g, c.name+".y", y.Detach())
				same(t, g, c.name+".after", torch.Rand(3))
				y.Mul(y).Sum(torch.DefaultDType).Backward()
				compare := same
				if c.plain {
					goldencount.Of(t).Explain("without checkpoints autograd sums gradients in another order")
					compare = func(t *testing.T, g *golden.File, key string, got torch.Tensor) {
						golden.Close(t, key, got, g.Tensor(key), 1e-4, 1e-5)
					}
				}
				compare(t, g, c.name+".x.grad", x.Grad())
				for i, w := range ws {
					compare(t, g, fmt.Sprintf("%s.w%d.grad", c.name, i), w.Grad())
				}
				same(t, g, c.name+".end", torch.Rand(3))
			}
			if c.scoped {
				torch.Scope(run)
			} else {
				runtime.LockOSThread() // the order in which gradients are added depends on a counter per thread
				defer runtime.UnlockOSThread()
				run()
			}
		})
	}
}

// transformers uses the non-reentrant form of torch.utils.checkpoint, whose gradients are the same
// as without checkpoints. If each input is used by only one checkpoint, ours are identical bit for
// bit.
func TestAStackOfCheckpointsGivesTheBitsOfTheFormThatIsNotReentrant(t *testing.T) {
	testenv.RequireTorch(t)
	g := golden.Load(t, "testdata/autograd.safetensors")
	for _, name := range []string{"chain", "chain_autocast"} {
		t.Run(name, func(t *testing.T) {
			goldencount.Start(t, "autograd", name)
			torch.Scope(func() {
				x := g.Tensor("x").Clone().RequiresGrad()
				var ws tensors
				for i := range 3 {
					ws = append(ws, g.Tensor(fmt.Sprintf("w%d", i)).Clone().RequiresGrad())
				}
				block := func(in tensors) tensors {
					h := in[0].Add(in[0].Linear(in[1], torch.Tensor{}).Tanh().Dropout(0.4, true)).LayerNorm([]int64{6},
						torch.Tensor{}, torch.Tensor{}, 1e-5)
					return tensors{h.Add(h.Linear(in[1], torch.Tensor{}).GELU("none").Dropout(0.1, true))}
				}
				torch.ManualSeed(7)
				h := x
				torch.Autocast(torch.CPU, torch.DefaultDType, name == "chain_autocast", true, func() {
					for _, w := range ws {
						h = torch.Checkpoint(block, h, w)[0]
					}
				})
				h.Mul(h).Sum(torch.DefaultDType).Backward()
				same(t, g, name+".y", h.Detach())
				same(t, g, name+".x.grad", x.Grad())
				for i, w := range ws {
					same(t, g, fmt.Sprintf("%s.w%d.grad", name, i), w.Grad())
				}
			})
		})
	}
}

func TestACheckpointKeepsNoIntermediates(t *testing.T) {
	testenv.RequireTorch(t)
	torch.Scope(func() {
		x := torch.Ones(8).RequiresGrad()
		before := settled()
		y := torch.Checkpoint(func(in tensors) tensors {
			h := in[0]
			for range 20 {
				h = h.Sin()
			}
			return tensors{h}
		}, x)[0]
		if made := torch.Live() - before; made != 1 {
			t.Errorf("%d tensors are alive after a checkpoint with one result", made)
		}
		y.Sum(torch.DefaultDType).Backward()
		if !x.Grad().Defined() {
			t.Error("no gradient")
		}
	})
}

func TestACheckpointWhoseInputsNeedNoGradientTrainsItsParameters(t *testing.T) {
	testenv.RequireTorch(t)
	w, x := torch.Ones(3).RequiresGrad(), torch.From([]float32{1, 2, 3})
	torch.Checkpoint(func(in tensors) tensors { return tensors{in[0].Mul(w), torch.Arange(3)} }, x,
		torch.Tensor{})[0].Sum(torch.DefaultDType).Backward()
	golden.Bits(t, "gradient", w.Grad(), x)
}

func TestWithoutGradModeACheckpointJustRuns(t *testing.T) {
	testenv.RequireTorch(t)
	w := torch.Ones(3).RequiresGrad()
	torch.NoGrad(func() {
		if y := torch.Checkpoint(func(in tensors) tensors { return tensors{in[0].Square()} }, w)[0]; y.NeedsGrad() {
			t.Error("the result has a history")
		}
	})
}

// cube is x**3 * y and exp(y), as in autograd.py.
var cube = torch.Function{
	Forward: func(in tensors) tensors { return tensors{in[0].PowScalar(3).Mul(in[1]), in[1].Exp()} },
	Backward: func(in, out, g tensors) tensors {
		x, y := in[0], in[1]
		return tensors{g[0].MulScalar(3).Mul(x.PowScalar(2)).Mul(y), g[0].Mul(x.PowScalar(3)).Add(g[1].Mul(out[1]))}
	},
}

func TestAFunctionIsDifferentiatedTwiceAsInPython(t *testing.T) {
	testenv.RequireTorch(t)
	g := golden.Load(t, "testdata/autograd.safetensors")
	for range 2 {
		torch.Scope(func() {
			x, y := g.Tensor("cube.x").Clone().RequiresGrad(), g.Tensor("cube.y").Clone().RequiresGrad()
			out := cube.Apply(x, y)
			same(t, g, "cube.a", out[0].Detach())
			same(t, g, "cube.b", out[1].Detach())
			first := torch.Grad(tensors{out[0].Mul(out[1]).Sum(0)}, tensors{x, y}, torch.GradOptions{CreateGraph: true})
			same(t, g, "cube.gx", first[0].Detach())
			same(t, g, "cube.gy", first[1].Detach())
			second := torch.Grad(tensors{first[0].Mul(first[1]).Sum(0)}, tensors{x, y}, torch.GradOptions{})
			same(t, g, "cube.ggx", second[0])
			same(t, g, "cube.ggy", second[1])
			unused := torch.Grad(tensors{cube.Apply(x, y)[1].Sum(0)}, tensors{x, y}, torch.GradOptions{})
			same(t, g, "cube.second.gx", unused[0])
			same(t, g, "cube.second.gy", unused[1])
		})
	}
}

func TestAFunctionOfTensorsWithoutGradientsHasNoHistory(t *testing.T) {
	testenv.RequireTorch(t)
	for _, y := range cube.Apply(torch.Ones(2), torch.Ones(2)) {
		if y.NeedsGrad() {
			t.Error("a result has a history")
		}
	}
}

func TestAnUndefinedGradientOfAFunctionIsNone(t *testing.T) {
	testenv.RequireTorch(t)
	x, y := torch.Ones(2).RequiresGrad(), torch.Ones(2).RequiresGrad()
	first := torch.Function{
		Forward: func(in tensors) tensors { return tensors{in[0].Clone(), torch.Arange(2)} },
		Backward: func(in, out, g tensors) tensors {
			if in[2].Defined() || len(g) != 2 || out[1].DType() != torch.Int64 {
				t.Errorf("backward is given %v, %v, %v", in, out, g)
			}
			return tensors{g[0].MulScalar(5), {}, {}}
		},
	}
	out := first.Apply(x, y, torch.Tensor{})
	if out[1].NeedsGrad() {
		t.Error("integers have a history")
	}
	out[0].Sum(0).Backward()
	golden.Bits(t, "the gradient that was given", x.Grad(), torch.Full(5.0, 2))
	if y.Grad().Defined() {
		t.Error("the undefined gradient became one")
	}
}

func TestRetainGraphRunsTheGoCodeOfANodeAgain(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.From([]float32{1, 2}).RequiresGrad()
	runs := 0
	y := torch.Checkpoint(func(in tensors) tensors {
		runs++
		return tensors{cube.Apply(in[0], in[0])[0]}
	}, x)[0].Sum(0)
	torch.Backward(torch.BackwardOptions{RetainGraph: true}, y)
	y.Backward()
	golden.Bits(t, "the sum of both passes", x.Grad(), torch.From([]float32{8, 64}))
	if runs != 3 {
		t.Errorf("the function ran %d times, want once forward and once for each pass", runs)
	}
}

func TestGradientsOfGradientsOfGradients(t *testing.T) {
	testenv.RequireTorch(t)
	g := golden.Load(t, "testdata/autograd.safetensors")
	test := func(t *testing.T) {
		x := g.Tensor("third.x").Clone().RequiresGrad()
		y := x.Sin().Mul(x.Exp()).Sum(0)
		for i := range 3 {
			y = torch.Grad(tensors{y.Sum(0)}, tensors{x}, torch.GradOptions{CreateGraph: true})[0]
			same(t, g, fmt.Sprintf("third.%d", i), y.Detach())
		}
	}
	torch.Scope(func() { // pins the thread, and with it the order in which gradients are added
		test(t)
		keep := cube.Apply(torch.Ones(2).RequiresGrad(), torch.Ones(2)) // from here on, passes may have to call Go code
		test(t)
		runtime.KeepAlive(keep)
	})
}

// once is the identity with the given backward.
func once(backward func(g torch.Tensor) tensors) torch.Function {
	return torch.Function{
		Forward:  func(in tensors) tensors { return tensors{in[0].Clone()} },
		Backward: func(_, _, g tensors) tensors { return backward(g[0]) },
	}
}

func TestMistakesInGoNodesEndThePassWithAReason(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.Ones(3).RequiresGrad()
	sum := func(y tensors) torch.Tensor { return y[0].Sum(0) }
	square := func(in tensors) tensors { return tensors{in[0].Square()} }
	for _, c := range []struct {
		name, want string
		f          func()
	}{
		{"too few gradients", "returned 0 gradients, want one for each of its 1 inputs", func() {
			sum(once(func(torch.Tensor) tensors { return nil }).Apply(x)).Backward()
		}},
		{"a gradient of another shape", "shape", func() {
			sum(once(func(torch.Tensor) tensors { return tensors{torch.Ones(7)} }).Apply(x)).Backward()
		}},
		{"a wrong operator in backward", "MatMul", func() {
			sum(once(func(g torch.Tensor) tensors { return tensors{g.MatMul(torch.Ones(9, 9))} }).Apply(x)).Backward()
		}},
		{"Backward in backward", "cannot start inside", func() {
			sum(once(func(g torch.Tensor) tensors {
				x.Square().Sum(0).Backward()
				return tensors{g}
			}).Apply(x)).Backward()
		}},
		{"Grad in backward", "cannot start inside", func() {
			sum(once(func(g torch.Tensor) tensors {
				return torch.Grad(tensors{x.Square().Sum(0)}, tensors{x}, torch.GradOptions{})
			}).Apply(x)).Backward()
		}},
		{"a second pass through a freed graph", "second time", func() {
			y := sum(once(func(g torch.Tensor) tensors { return tensors{g} }).Apply(x))
			y.Backward()
			y.Backward()
		}},
		{"an input changed in place", "modified by an inplace operation", func() {
			h := x.Mul(x)
			y := sum(cube.Apply(h, x))
			torch.NoGrad(func() { h.Zero_() })
			y.Backward()
		}},
		{"Grad through a checkpoint", "Grad cannot pass a Checkpoint", func() {
			torch.Grad(tensors{sum(torch.Checkpoint(square, x))}, tensors{x}, torch.GradOptions{})
		}},
		{"a checkpoint differentiated twice", "gives no gradients of gradients", func() {
			torch.Backward(torch.BackwardOptions{CreateGraph: true}, sum(torch.Checkpoint(square, x)))
		}},
		{"a checkpoint with another number of results", "returned 2 tensors when it was computed again, and 1", func() {
			runs := 0
			sum(torch.Checkpoint(func(in tensors) tensors {
				runs++
				if runs > 1 {
					return tensors{in[0].Square(), in[0].Exp()}
				}
				return square(in)
			}, x)).Backward()
		}},
		{"a checkpoint with another shape", "returned result 0 with sizes [3, 1]", func() {
			runs := 0
			sum(torch.Checkpoint(func(in tensors) tensors {
				runs++
				if runs > 1 {
					return tensors{in[0].Square().Unsqueeze(1)}
				}
				return square(in)
			}, x)).Backward()
		}},
		{"a function without Backward", "must both be set", func() { torch.Function{Forward: square}.Apply(x) }},
		{"a hook on a tensor without gradients", "doesn't require gradient", func() {
			torch.Ones(1).RegisterHook(torch.HookOptions{})
		}},
		{"a negative limit", "must not be negative", func() { x.RegisterHook(torch.HookOptions{ClipNorm: -1}) }},
		{"a limit that is no number", "must not be negative", func() {
			x.RegisterHook(torch.HookOptions{ClipValue: math.NaN()})
		}},
		{"RetainGrad of a tensor without gradients", "", func() { torch.Ones(1).RetainGrad() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := torch.Try(c.f)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
			x.SetGrad(torch.Tensor{})
			x.Square().Sum(0).Backward() // the thread still works
			golden.Bits(t, "the gradient after the mistake", x.Grad(), torch.Full(2.0, 3))
		})
	}
}

func TestAPanicInBackwardReachesTheCaller(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.Ones(3).RequiresGrad()
	y := once(func(torch.Tensor) tensors { panic("mine") }).Apply(x)[0].Sum(0)
	defer func() {
		if r := recover(); r != "mine" {
			t.Errorf("recovered %v, want the closure's own panic", r)
		}
	}()
	y.Backward()
}

func TestGoexitInBackwardEndsThePass(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.Ones(3).RequiresGrad()
	done := make(chan bool)
	go func() {
		defer close(done)
		t.Run("inner", func(t *testing.T) {
			once(func(torch.Tensor) tensors { t.SkipNow(); return nil }).Apply(x)[0].Sum(0).Backward()
		})
	}()
	<-done
	x.Square().Sum(0).Backward()
}

func TestManyGoroutinesRunPassesWithGoNodesAtOnce(t *testing.T) {
	testenv.RequireTorch(t)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for range 30 {
				torch.Scope(func() {
					x := torch.From([]float32{1, 2, 3}).RequiresGrad()
					h := torch.Checkpoint(func(in tensors) tensors { return tensors{cube.Apply(in[0], in[0])[0]} },
						x)[0]
					torch.Checkpoint(func(in tensors) tensors { return tensors{in[0].Sum(0)} }, h)[0].Backward()
					if got, want := torch.Values[float32](x.Grad()), []float32{4, 32, 108}; got[0] != want[0] ||
						got[1] != want[1] || got[2] != want[2] {
						t.Errorf("gradient %v, want %v", got, want)
					}
				})
			}
		})
	}
	wg.Wait()
}

func TestGoNodesAreForgottenWithTheirGraphs(t *testing.T) {
	testenv.RequireTorch(t)
	torch.Sweep()
	x := torch.Ones(3).RequiresGrad()
	step := func() {
		torch.Scope(func() {
			torch.Checkpoint(func(in tensors) tensors { return cube.Apply(in[0], in[0]) }, x)[0].Sum(0).Backward()
			cube.Apply(x, x) // never used
		})
	}
	step()
	before, live := torch.GoNodes(), torch.Live()
	for range 50 {
		step()
	}
	if after := torch.GoNodes(); after > before {
		t.Errorf("%d nodes are known, %d before 50 equal steps", after, before)
	}
	x.SetGrad(torch.Tensor{})
	if after := torch.Live(); after > live {
		t.Errorf("%d tensors are alive, %d before 50 equal steps", after, live)
	}
}
