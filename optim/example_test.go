package optim_test

import (
	"fmt"
	"log"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
)

// A regression in a bare loop: y = 2x - 1 is found from five points. Nothing is hidden and nothing
// leaks: each update has its scope.
func Example() {
	x := torch.From([]float32{-2, -1, 0, 1, 2}, 5, 1)
	y := torch.From([]float32{-5, -3, -1, 1, 3}, 5, 1)
	w, b := torch.Zeros(1, 1).RequiresGrad(), torch.Zeros(1).RequiresGrad()

	opt := optim.NewAdamW([]torch.Named{{Name: "weight", Tensor: w}, {Name: "bias", Tensor: b}},
		optim.AdamW{LR: 0.1, WeightDecay: new(0.0)})
	rate := lr.Linear{}.Plan(0.1, 200)
	for range 200 {
		torch.Scope(func() {
			loss := x.Linear(w, b).MSELoss(y, torch.ReductionMean)
			loss.Backward()
			opt.Step(rate(opt.Updates()))
			opt.ZeroGrad()
		})
	}
	fmt.Printf("y = %.2f x %+.2f after %d updates\n", w.Item(), b.Item(), opt.Updates())
	// Output:
	// y = 2.00 x -1.00 after 200 updates
}

// The weights of a new head have ten times the learning rate of the others, and biases have no decay.
func ExampleGroup() {
	body := []torch.Named{
		{Name: "body.weight", Tensor: torch.Ones(2, 2).RequiresGrad()},
		{Name: "body.bias", Tensor: torch.Ones(2).RequiresGrad()},
	}
	head := optim.Group{Name: "head", LRScale: 10,
		Params: []torch.Named{{Name: "head.weight", Tensor: torch.Ones(2).RequiresGrad()}}}
	opt, err := optim.AdamW{LR: 1e-4}.Build(append(optim.NoDecay(body, 0.01), head))
	if err != nil {
		log.Fatal(err)
	}
	for _, g := range opt.Groups() {
		fmt.Printf("%s: %d parameter, decay %g, rate x%g\n", g.Name, len(g.Params), *g.WeightDecay, g.LRScale)
	}
	// Output:
	// decay: 1 parameter, decay 0.01, rate x1
	// no_decay: 1 parameter, decay 0, rate x1
	// head: 1 parameter, decay 0.01, rate x10
}

func ExampleClipGradNorm() {
	w := torch.From([]float32{3, 4}).RequiresGrad()
	params := []torch.Named{{Name: "w", Tensor: w}}
	w.Square().Sum(0).Backward() // the gradient is 6, 8

	norm := optim.ClipGradNorm(params, 1)
	fmt.Printf("norm %g, gradient now %.2f\n", norm.Item(), torch.Values[float32](w.Grad()))
	// Output:
	// norm 10, gradient now [0.60 0.80]
}

// A new optimizer continues from the state of another.
func ExampleOptimizer_LoadState() {
	w := torch.Ones(3).RequiresGrad()
	params := []torch.Named{{Name: "w", Tensor: w}}
	first := optim.NewSGD(params, optim.SGD{Momentum: 0.9})
	w.Sum(0).Backward()
	first.Step(0.1)

	second := optim.NewSGD(params, optim.SGD{Momentum: 0.9})
	if err := second.LoadState(first.State(), first.Updates()); err != nil {
		log.Fatal(err)
	}
	for _, s := range second.State() {
		fmt.Println(s.Name, torch.Values[float32](s.Tensor), "after", second.Updates())
	}
	err := second.LoadState([]torch.Named{{Name: "w.momentum_buffer", Tensor: torch.Zeros(2)}}, 1)
	fmt.Println(err)
	// Output:
	// w.momentum_buffer [1 1 1] after 1
	// optim: state "w.momentum_buffer" has shape [2]; want [3]
}

// Every optimizer must find the minimum of a quadratic bowl, and climb away from it with Maximize.
func TestOptimizersConverge(t *testing.T) {
	testenv.RequireTorch(t)
	for _, test := range []struct {
		name     string
		builder  optim.Builder
		lr       float64
		maximize bool
	}{
		{"AdamW", optim.AdamW{WeightDecay: new(0.0)}, 0.1, false},
		{"Adam with AMSGrad", optim.Adam{AMSGrad: true}, 0.1, false},
		{"SGD", optim.SGD{}, 0.1, false},
		{"SGD with Nesterov momentum", optim.SGD{Momentum: 0.9, Nesterov: true}, 0.02, false},
		{"SGD upwards", optim.SGD{Maximize: true}, 0.01, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := torch.From([]float32{4, -3}).RequiresGrad()
			opt, err := test.builder.Build([]optim.Group{{Params: []torch.Named{{Name: "w", Tensor: w}}}})
			if err != nil {
				t.Fatal(err)
			}
			distance := func() float64 { return w.AddScalar(-1.0).Square().Sum(0).Item() }
			before := distance()
			for range 300 {
				torch.Scope(func() {
					w.AddScalar(-1.0).Square().Sum(0).Backward()
					opt.Step(test.lr)
					opt.ZeroGrad()
				})
			}
			if after := distance(); !test.maximize && after > 1e-3 || test.maximize && after < before {
				t.Errorf("the squared distance from the minimum went from %g to %g", before, after)
			}
		})
	}
}
