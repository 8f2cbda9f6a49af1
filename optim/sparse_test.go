package optim_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// lookUp gives w the sparse gradient of the sum of some rows, each multiplied by its factors.
func lookUp(w, index, factors torch.Tensor) {
	torch.Call("aten::embedding", w, index, -1, false, true)[0].Mul(factors).Sum(torch.DefaultDType).Backward()
}

func TestSparseGradientsUpdateTheirRowsAsInPyTorch(t *testing.T) {
	testenv.RequireTorch(t)
	g := golden.Load(t, "testdata/sparse.safetensors") // written by testdata/sparse.py
	for name, builder := range map[string]optim.Builder{
		"plain":   optim.SparseAdam{},
		"options": optim.SparseAdam{Beta1: new(0.8), Beta2: new(0.95), Eps: new(1e-4), Maximize: true},
		"double":  optim.SparseAdam{},
		"sgd":     optim.SGD{Implementation: optim.ForLoop},
	} {
		for _, stop := range []int{0, 9} { // 9: a new optimizer continues with the first one's state
			t.Run(fmt.Sprintf("%s after %d", name, stop), func(t *testing.T) {
				goldencount.Start(t, "optimizers, 20 updates", "sparse "+name)
				torch.Scope(func() {
					w := g.Tensor("init").Clone()
					if name == "double" {
						w = w.ToDType(torch.Float64)
					}
					w.RequiresGrad()
					build := func() optim.Optimizer {
						opt, err := builder.Build([]optim.Group{{Params: []torch.Named{{Name: "w", Tensor: w}}}})
						if err != nil {
							t.Fatal(err)
						}
						return opt
					}
					opt := build()
					for k := range 20 {
						if stop > 0 && k == stop {
							former := opt
							opt = build()
							if err := opt.LoadState(former.State(), k); err != nil {
								t.Fatal(err)
							}
						}
						opt.ZeroGrad()
						if k != 7 {
							lookUp(w, g.Tensor(fmt.Sprint("index.", k)), g.Tensor(fmt.Sprint("factor.", k)))
						}
						opt.Step(0.05 * (float64(20-k) / 20))
					}
					golden.Recorded(t, "parameter", w.Detach(), g.Tensor(name+".param"))
					states := 0
					for _, s := range opt.State() {
						golden.Recorded(t, s.Name, s.Tensor, g.Tensor(name+strings.TrimPrefix(s.Name, "w")))
						states++
					}
					if want := 3; name != "sgd" && states != want {
						t.Errorf("there are %d states, want %d", states, want)
					}
				})
			})
		}
	}
}

func TestGradientsOfTheWrongKindAreRefusedWithTheOptimizerForThem(t *testing.T) {
	testenv.RequireTorch(t)
	builders := []optim.Builder{optim.SparseAdam{}, optim.SGD{Momentum: 0.9}, optim.SGD{WeightDecay: new(0.1),
		Implementation: optim.ForLoop}}
	for _, b := range settingsByName {
		builders = append(builders, b)
	}
	for _, b := range builders {
		w := torch.Zeros(4, 2).RequiresGrad()
		opt, err := b.Build([]optim.Group{{Params: []torch.Named{{Name: "words", Tensor: w}}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := b.(optim.SparseAdam); !ok {
			ready(opt)
		}
		want := `the gradient of parameter "words" is sparse; want SparseAdam`
		if _, ok := b.(optim.SparseAdam); ok {
			want = `the gradient of parameter "words" is not sparse; want Adam`
			w.SetGrad(torch.Ones(4, 2))
		} else {
			lookUp(w, torch.From([]int64{1, 1, 3}), torch.Ones(3, 2))
		}
		err = torch.Try(func() { opt.Step(0.1) })
		if !errors.Is(err, torch.ErrNotSupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: got %v, want %q", b, err, want)
		}
		if got := torch.Values[float32](w.Detach()); fmt.Sprint(got) != "[0 0 0 0 0 0 0 0]" {
			t.Errorf("%T: the parameter changed to %v", b, got)
		}
	}
	for _, c := range []struct {
		settings optim.SparseAdam
		group    optim.Group
		want     string
	}{
		{optim.SparseAdam{Beta1: new(1.0)}, optim.Group{}, "SparseAdam.Beta1 is 1"},
		{optim.SparseAdam{Eps: new(0.0)}, optim.Group{}, "SparseAdam.Eps is 0"},
		{optim.SparseAdam{}, optim.Group{WeightDecay: new(0.1)}, "SparseAdam decays no weights"},
	} {
		c.group.Params = []torch.Named{{Name: "w", Tensor: torch.Zeros(2).RequiresGrad()}}
		if _, err := c.settings.Build([]optim.Group{c.group}); !errors.Is(err, optim.ErrOption) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.settings, err, c.want)
		}
	}
}
