package torch_test

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// settled returns torch.Live after the garbage collector has freed everything unreachable.
func settled() int64 {
	for live := int64(-1); ; live = torch.Live() { // a cleanup may make further tensors unreachable
		if torch.Sweep(); torch.Live() == live {
			return live
		}
	}
}

func TestScopeFreesWhatWasMadeInItAndNothingElse(t *testing.T) {
	testenv.RequireTorch(t)
	outer := torch.Ones(2)
	defer outer.Free()
	before := settled()
	var inner, kept torch.Tensor
	torch.Scope(func() {
		inner = outer.AddScalar(1)
		kept = outer.AddScalar(2).Keep()
		outer.Add_(inner)
		if got := torch.Live(); got != before+2 {
			t.Errorf("Live() = %d inside, want %d", got, before+2)
		}
	})
	if got := torch.Live(); got != before+1 {
		t.Errorf("Live() = %d after the scope, want %d: the kept tensor alone", got, before+1)
	}
	if got := kept.Sum(0).Item(); got != 6 {
		t.Errorf("the kept tensor sums to %v, want 6", got)
	}
	if e := mustFail(t, func() { inner.Neg() }); !errors.Is(e, torch.ErrFreed) {
		t.Errorf("use after the scope: %v, want ErrFreed", e)
	}
	kept.Free()
	if got := outer.At(0).Item(); got != 3 {
		t.Errorf("the outer tensor is %v, want 3", got)
	}
}

func TestScopesNestAndReturnHandsToTheEnclosingOne(t *testing.T) {
	testenv.RequireTorch(t)
	before := settled()
	var middle, last torch.Tensor
	torch.Scope(func() {
		x := torch.Ones(3)
		torch.Scope(func() {
			middle = torch.Return(func() torch.Tensor {
				last = x.MulScalar(2)
				return last.AddScalar(1)
			})
			if got := middle.Sum(0).Item(); got != 9 {
				t.Errorf("the returned tensor sums to %v, want 9", got)
			}
			mustFail(t, func() { last.Neg() })
		})
		mustFail(t, func() { middle.Neg() })
		x.Neg()
	})
	if got := torch.Live(); got != before {
		t.Errorf("Live() = %d, was %d", got, before)
	}
	outside := torch.Return(func() torch.Tensor { return torch.Ones(2).AddScalar(1) })
	if got := outside.Sum(0).Item(); got != 4 {
		t.Errorf("Return outside of any scope gave %v, want 4", got)
	}
	if got := torch.Return(func() torch.Tensor { return torch.Tensor{} }); got.Defined() {
		t.Error("Return of the undefined tensor is defined")
	}
	y := torch.Ones(2)
	if same := torch.Return(func() torch.Tensor { return y }); !same.Is(y) {
		t.Error("Return of a tensor from outside is another tensor")
	}
	if got := y.Sum(0).Item(); got != 2 {
		t.Errorf("a tensor that Return passed through is %v, want 2", got)
	}
}

func TestReturnAllHandsSeveralTensorsToTheEnclosingScope(t *testing.T) {
	testenv.RequireTorch(t)
	before := settled()
	torch.Scope(func() {
		x := torch.Ones(3)
		var within torch.Tensor
		out := torch.ReturnAll(func() []torch.Tensor {
			within = x.MulScalar(2)
			return []torch.Tensor{within.AddScalar(1), {}, x}
		})
		if got := out[0].Sum(0).Item(); got != 9 {
			t.Errorf("the first tensor sums to %v, want 9", got)
		}
		if out[1].Defined() || !out[2].Is(x) {
			t.Error("want the undefined tensor and the one from outside")
		}
		mustFail(t, func() { within.Neg() })
	})
	if got := torch.Live(); got != before {
		t.Errorf("Live() = %d, was %d", got, before)
	}
}

func TestScopeEndsAndModesReturnWhenTheClosurePanicsOrExits(t *testing.T) {
	testenv.RequireTorch(t)
	before := settled()
	for _, c := range []struct {
		name   string
		region func(func())
	}{
		{"Scope", torch.Scope}, {"NoGrad", torch.NoGrad}, {"InferenceMode", torch.InferenceMode},
		{"Autocast", func(f func()) { torch.Autocast(torch.CPU, torch.BFloat16, true, true, f) }},
	} {
		for _, end := range []struct {
			name string
			f    func()
		}{{"panic", func() { panic("stop") }}, {"Goexit", runtime.Goexit}} {
			t.Run(c.name+"/"+end.name, func(t *testing.T) {
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() {
						recover()
						if !torch.IsGradEnabled() || torch.IsInferenceModeEnabled() {
							t.Error("a mode was left on")
						}
						torch.Scope(func() {
							if d := torch.Ones(2, 2).MM(torch.Ones(2, 2)).DType(); d != torch.Float32 {
								t.Errorf("a product gives %s: autocast was left on", d)
							}
						})
					}()
					torch.Scope(func() {
						c.region(func() {
							torch.Ones(2)
							end.f()
						})
					})
				}()
				<-done
			})
		}
	}
	if got := settled(); got != before {
		t.Errorf("Live() = %d, was %d", got, before)
	}
}

func TestScopesTooDeepSaySo(t *testing.T) {
	testenv.RequireTorch(t)
	var nest func(n int)
	nest = func(n int) {
		if n > 0 {
			torch.Scope(func() { nest(n - 1) })
		}
	}
	e := mustFail(t, func() { nest(5000) })
	if want := "4095 scopes are open at once"; !strings.Contains(e.Error(), want) {
		t.Errorf("got %q, want it to say %q", e, want)
	}
	torch.Scope(func() { nest(4000) }) // all scopes are free again
}

func TestTensorsOfManyGoroutinesLandInTheirOwnScope(t *testing.T) {
	testenv.RequireTorch(t)
	before := settled()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			torch.Scope(func() {
				x := torch.Full(float32(g))
				sum := torch.Zeros()
				for i := range 2000 {
					next := torch.Return(func() torch.Tensor { return sum.Add(x) })
					if i%50 == 0 {
						runtime.Gosched()
					}
					sum.Free()
					sum = next
				}
				if got := sum.Item(); got != float64(2000*g) {
					t.Errorf("goroutine %d: %v, want %d", g, got, 2000*g)
				}
			})
		})
	}
	wg.Wait()
	if got := settled(); got != before {
		t.Errorf("Live() = %d, was %d", got, before)
	}
}

func TestTensorsOfGoroutinesInsideDoNotBelongToTheScope(t *testing.T) {
	testenv.RequireTorch(t)
	var x torch.Tensor
	torch.Scope(func() {
		done := make(chan struct{})
		go func() { defer close(done); x = torch.Ones(2) }()
		<-done
	})
	if got := x.Sum(0).Item(); got != 2 {
		t.Errorf("got %v, want 2", got)
	}
}

func TestUseOfAFreedTensorPanicsWithItsSentence(t *testing.T) {
	testenv.RequireTorch(t)
	byFree, byScope, inScope := torch.Ones(2), torch.Tensor{}, torch.Tensor{}
	byFree.Free()
	byFree.Free() // does nothing
	torch.Scope(func() { byScope = torch.Ones(2) })
	var byInference torch.Tensor
	torch.Scope(func() { torch.InferenceMode(func() { byInference = torch.Ones(2) }) })
	torch.Scope(func() { inScope = torch.Ones(2); inScope.Free() })
	live := torch.Ones(2)
	for name, x := range map[string]torch.Tensor{"Free": byFree, "Scope": byScope, "InferenceMode": byInference,
		"Free in a Scope": inScope} {
		for use, f := range map[string]func(){
			"receiver": func() { x.Add(live) }, "argument": func() { live.Add(x) }, "Shape": func() { x.Shape() },
			"Item":   func() { x.Item() },
			"Values": func() { torch.Values[float32](x) }, "Keep": func() { x.Keep() },
			"list": func() { torch.Cat([]torch.Tensor{live, x}, 0) },
			"Call": func() { torch.Call("aten::neg", x) }, "Backward": func() { x.Backward() },
			"optional": func() { live.Linear(live, x) },
			"At":       func() { x.At(0) }, "NewList": func() { torch.NewList(x) }, "Grad": func() { x.Grad() },
			"Copy_": func() { live.Copy_(x) },
		} {
			if e := mustFail(t, f); !errors.Is(e, torch.ErrFreed) || !strings.Contains(e.Error(),
				"Keep() lets a tensor outlive its scope") {
				t.Errorf("%s, %s: %v, want ErrFreed and what to do", name, use, e)
			}
		}
		if !x.Defined() {
			t.Errorf("%s: a freed tensor is undefined", name)
		}
	}
}

func TestUseOfTheUndefinedTensorPanicsWithItsSentence(t *testing.T) {
	testenv.RequireTorch(t)
	var x torch.Tensor
	live := torch.Ones(2)
	for use, f := range map[string]func(){
		"receiver": func() { x.Add(live) }, "argument": func() { live.Add(x) }, "Shape": func() { x.Shape() },
		"Item": func() { x.Item() },
		"Keep": func() { x.Keep() }, "list": func() { torch.Cat([]torch.Tensor{live, x}, 0) },
		"Backward": func() { x.Backward() },
		"NewList":  func() { torch.NewList(x) },
		"LSTM":     func() { live.LSTM(live, live, []torch.Tensor{x}, torch.RNNOptions{}) },
		"Grad":     func() { torch.Grad([]torch.Tensor{x}, []torch.Tensor{live}, torch.GradOptions{}) },
		"gradient": func() {
			torch.Backward(torch.BackwardOptions{Gradients: []torch.Tensor{x}}, live.Clone().RequiresGrad().Neg())
		},
	} {
		if e := mustFail(t, f); !errors.Is(e, torch.ErrUndefined) || !strings.Contains(e.Error(), "zero Tensor") {
			t.Errorf("%s: %v, want ErrUndefined", use, e)
		}
	}
	if e := mustFail(t, func() { torch.Call("aten::cat", []torch.Tensor{live, x}) }); !errors.Is(e, torch.ErrValue) {
		t.Errorf("Call with an undefined tensor in a list: %v, want ErrValue", e)
	}
	x.Free() // does nothing
	if x.Defined() || !x.Is(torch.Tensor{}) || x.Is(live) {
		t.Error("the zero Tensor is not the undefined one")
	}
}

func TestAResultThatIsItsArgumentHasAReferenceOfItsOwn(t *testing.T) {
	testenv.RequireTorch(t)
	for name, f := range map[string]func(torch.Tensor) torch.Tensor{
		"Dropout in evaluation": func(x torch.Tensor) torch.Tensor { return x.Dropout(0.5, false) },
		"Contiguous":            torch.Tensor.Contiguous,
		"ToDType of its own":    func(x torch.Tensor) torch.Tensor { return x.ToDType(torch.Float32) },
		"ToDType of none":       func(x torch.Tensor) torch.Tensor { return x.ToDType(torch.DefaultDType) },
		"CPU":                   torch.Tensor.CPU,
		"To":                    func(x torch.Tensor) torch.Tensor { return x.To(torch.TensorOptions{}) },
		"Detach":                torch.Tensor.Detach,
		"Reshape":               func(x torch.Tensor) torch.Tensor { return x.Reshape(2, 2) },
		"Call": func(x torch.Tensor) torch.Tensor {
			return torch.Call("aten::dropout", x, 0.5, false)[0]
		},
		"Call in place": func(x torch.Tensor) torch.Tensor { return torch.Call("aten::mul_.Scalar", x, 1)[0] },
	} {
		t.Run(name, func(t *testing.T) {
			x := torch.Ones(2, 2)
			y := f(x)
			x.Free()
			if got := y.Sum(0).Item(); got != 4 {
				t.Errorf("the result is %v after its argument was freed, want 4", got)
			}
			x = torch.Ones(2, 2)
			z := f(x)
			z.Free()
			if got := x.Sum(0).Item(); got != 4 {
				t.Errorf("the argument is %v after the result was freed, want 4", got)
			}
			torch.Scope(func() { f(x) })
			if got := x.Sum(0).Item(); got != 4 {
				t.Errorf("the argument is %v after the result's scope, want 4", got)
			}
		})
	}
}

func TestKeepInsideAnInnerScopeOutlivesTheOuterOneToo(t *testing.T) {
	testenv.RequireTorch(t)
	var x torch.Tensor
	torch.Scope(func() { torch.Scope(func() { x = torch.Ones(1).Keep().Keep() }) })
	if got := x.Item(); got != 1 {
		t.Errorf("got %v, want 1", got)
	}
	before := settled()
	x.Free()
	if got := torch.Live(); got != before-1 {
		t.Errorf("Live() = %d after Free, want %d", got, before-1)
	}
}

func TestMadeCountsTheTensorsOfScopesThatHaveEndedAndThoseToKeep(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.From([]float32{1, 2})
	before := torch.Made()
	torch.Scope(func() {
		y := x.Add(x)
		y.Free()
		x.Mul(x).Keep().Free()
		x.ReLU()
		assert.Equal(t, before+1, torch.Made(), "only the kept tensor counts")
	})
	assert.Equal(t, before+3, torch.Made())
	x.Free()
}
