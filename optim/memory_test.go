package optim_test

import (
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// States live as long as the optimizer: they are created in the scope of a step but must outlive
// it, and later steps must not create any.
func TestStepsHoldNoMoreTensorsAfterTheFirst(t *testing.T) {
	testenv.RequireTorch(t)
	for _, b := range []optim.Builder{optim.AdamW{AMSGrad: true}, optim.SGD{}, optim.SGD{Momentum: 0.9}} {
		t.Run(fmt.Sprintf("%T", b), func(t *testing.T) {
			params := []torch.Named{param("a", 3), param("b", 2, 2), {Name: "frozen", Tensor: torch.Ones(2)}}
			opt, err := b.Build([]optim.Group{{Params: params}})
			if err != nil {
				t.Fatal(err)
			}
			step := func(wrap func(func())) {
				wrap(func() {
					torch.Scope(func() { params[0].Tensor.Sum(0).Add(params[1].Tensor.Sum(0)).Backward() })
					opt.Step(0.1)
					opt.ZeroGrad()
				})
			}
			step(torch.Scope)
			runtime.GC() // leftovers of other tests must not be counted
			before := torch.Live()
			for range 50 {
				step(torch.Scope)
				step(func(f func()) { f() }) // a loop without scopes
			}
			if after := torch.Live(); after > before {
				t.Errorf("after 100 more steps there are %d tensors, want at most %d", after, before)
			}
			for _, s := range opt.State() {
				_ = s.Tensor.Bytes() // panics if it has been freed
			}
		})
	}
}

// Once all parameters have their states, a step makes the same few allocations in Go, however many
// parameters there are.
func TestAllocationsOfAStepDoNotGrowWithParameters(t *testing.T) {
	testenv.RequireTorch(t)
	for _, b := range []optim.Builder{optim.AdamW{}, optim.SGD{Momentum: 0.9}} {
		allocations := func(count int) float64 {
			_, opt := manyParameters(t, b, count, 4)
			opt.Step(0.1)
			least := math.Inf(1)
			for range 5 { // cleanups of earlier tests can only add allocations
				least = min(least, testing.AllocsPerRun(20, func() { opt.Step(0.1) }))
			}
			return least
		}
		if few, many := allocations(2), allocations(200); many > few || many > 4 {
			t.Errorf("%T: a step allocates %g objects with 2 parameters and %g with 200, want the same, at most 4", b,
				few, many)
		}
	}
}

// manyParameters makes parameters that all have gradients.
func manyParameters(t testing.TB, b optim.Builder, count int, size int64) ([]torch.Named, optim.Optimizer) {
	t.Helper()
	var params []torch.Named
	for i := range count {
		p := param(fmt.Sprint("p", i), size)
		p.Tensor.SetGrad(torch.Full(0.5, size))
		params = append(params, p)
	}
	opt, err := b.Build([]optim.Group{{Params: params}})
	if err != nil {
		t.Fatal(err)
	}
	return params, opt
}
