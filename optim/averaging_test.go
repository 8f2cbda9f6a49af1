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

// averagedRun repeats a case of testdata/pytorch.py up to the update stop and then continues with a
// new average.
func averagedRun(t *testing.T, name string, stop int) (*optim.Averaged, *golden.File) {
	g, inputs := golden.Load(t, "testdata/pytorch.safetensors"), golden.Load(t, "testdata/inputs.safetensors")
	var tensors []torch.Named
	for _, n := range pytorchNames {
		tensors = append(tensors, torch.Named{Name: n, Tensor: inputs.Tensor("init." + n).Clone().RequiresGrad()})
	}
	count := torch.From([]int64{3, 100})
	if strings.HasSuffix(name, "buffers") {
		tensors = append(tensors, torch.Named{Name: "count", Tensor: count})
	}
	var o optim.Averaging
	if strings.HasPrefix(name, "ema") {
		o.Decay = 0.9
	}
	a := optim.NewAveraged(tensors, o)
	for k := range 5 {
		if k == stop {
			b := optim.NewAveraged(tensors, o)
			if err := b.LoadState(a.Tensors(), a.Updates()); err != nil {
				t.Fatal(err)
			}
			a = b
		}
		torch.NoGrad(func() {
			for i, n := range pytorchNames {
				tensors[i].Tensor.Copy_(inputs.Tensor(fmt.Sprintf("grad.%d.%s", k, n)))
			}
			count.AddScalar_(k + 1)
		})
		a.Update()
	}
	return a, g
}

func TestAveragesEqualPyTorch(t *testing.T) {
	testenv.RequireTorch(t)
	for _, name := range []string{"plain", "ema", "buffers", "ema_buffers"} {
		for _, stop := range []int{-1, 0, 1, 3} {
			t.Run(fmt.Sprint(name, " resumed after ", stop), func(t *testing.T) {
				goldencount.Start(t, "averages of weights", name)
				a, g := averagedRun(t, name, stop)
				for _, p := range a.Tensors() {
					equal(t, p.Name, p.Tensor, g.Tensor("average/"+name+"/"+p.Name))
				}
				if a.Updates() != 5 {
					t.Errorf("Updates() = %d, want 5", a.Updates())
				}
			})
		}
	}
}

func TestSwapPutsEverythingBack(t *testing.T) {
	testenv.RequireTorch(t)
	w := param("w", 2)
	a := optim.NewAveraged([]torch.Named{w}, optim.Averaging{Decay: 0.5})
	a.Update()
	torch.NoGrad(func() { w.Tensor.Fill_(5) })
	a.Update() // 1 + (5-1)/2
	boom := &torch.Error{Op: "test", Code: torch.ErrInvalid}
	for _, fail := range []bool{false, true} {
		err := torch.Try(func() {
			a.Swap(func() {
				if got := w.Tensor.Sum(torch.DefaultDType).Item(); got != 6 {
					t.Errorf("the weights sum to %g while swapped, want 6", got)
				}
				if fail {
					panic(boom)
				}
			})
		})
		if fail != (err != nil) {
			t.Errorf("Swap panics with %v", err)
		}
		if got := w.Tensor.Sum(torch.DefaultDType).Item(); got != 10 {
			t.Errorf("the weights sum to %g afterwards, want 10", got)
		}
		if got := a.Tensors()[0].Tensor.Sum(torch.DefaultDType).Item(); got != 6 {
			t.Errorf("the average sums to %g afterwards, want 6", got)
		}
	}
}

func TestAveragesHoldNoMoreTensorsAfterTheFirst(t *testing.T) {
	testenv.RequireTorch(t)
	a := optim.NewAveraged([]torch.Named{param("w", 2), param("v", 3)}, optim.Averaging{})
	a.Update()
	before := torch.Live()
	for range 50 {
		a.Update()
		a.Swap(func() {})
	}
	if after := torch.Live(); after > before {
		t.Errorf("after 50 updates there are %d tensors, want at most %d", after, before)
	}
}

func TestAveragesRefuseWhatDoesNotFit(t *testing.T) {
	testenv.RequireTorch(t)
	w := []torch.Named{param("w", 2)}
	for name, f := range map[string]func(){
		"Decay of 2": func() { optim.NewAveraged(w, optim.Averaging{Decay: 2}) },
		"no name":    func() { optim.NewAveraged([]torch.Named{{Tensor: w[0].Tensor}}, optim.Averaging{}) },
	} {
		var e *torch.Error
		if err := torch.Try(f); !errors.As(err, &e) {
			t.Errorf("%s: NewAveraged panics with %v, want a torch.Error", name, err)
		}
	}
	a := optim.NewAveraged(w, optim.Averaging{})
	for _, test := range []struct {
		state   []torch.Named
		updates int
		says    string
	}{
		{a.Tensors(), -1, "is -1"},
		{nil, 1, `"w" is missing`},
		{[]torch.Named{{Name: "w", Tensor: torch.Ones(3)}}, 1, "shape [3]"},
		{append(a.Tensors(), a.Tensors()...), 1, "twice"},
		{append([]torch.Named{{Name: "v", Tensor: torch.Ones(3)}}, a.Tensors()...), 1, "2 averages"},
		{[]torch.Named{{Name: "w"}}, 1, "undefined"},
	} {
		if err := a.LoadState(test.state, test.updates); !errors.Is(err, optim.ErrState) ||
			!strings.Contains(err.Error(), test.says) {
			t.Errorf("LoadState = %v, want ErrState that says %q", err, test.says)
		}
	}
}

func TestUpdateBatchNormForgetsAndRestores(t *testing.T) {
	testenv.RequireTorch(t)
	cumulative := false
	s := optim.RunningStatistics{Mean: torch.Full(7, 2), Var: torch.Full(9, 2), Count: torch.From([]int64{4}),
		Cumulative: &cumulative}
	ran := false
	optim.UpdateBatchNorm([]optim.RunningStatistics{s}, func() {
		ran = true
		if !cumulative || torch.IsGradEnabled() || s.Mean.Sum(torch.DefaultDType).Item() != 0 ||
			s.Var.Sum(torch.DefaultDType).Item() != 2 || s.Count.Sum(torch.DefaultDType).Item() != 0 {
			t.Errorf("in the pass: cumulative %t, gradients %t, mean %v, variance %v, count %v; want true, false, 0, "+
				"1, 0", cumulative, torch.IsGradEnabled(), s.Mean, s.Var, s.Count)
		}
	})
	if !ran || cumulative {
		t.Errorf("the pass ran: %t; cumulative afterwards: %t; want true and false", ran, cumulative)
	}
	if err := torch.Try(func() {
		optim.UpdateBatchNorm([]optim.RunningStatistics{{Mean: s.Mean}}, func() {})
	}); !errors.Is(err, torch.ErrInvalid) {
		t.Errorf("a layer without variance: %v, want torch.ErrInvalid", err)
	}
	optim.UpdateBatchNorm(nil, func() { t.Error("without layers the pass ran") })
}
