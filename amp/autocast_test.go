package amp_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// The models of testdata/autocast.py.
var models = map[string]struct {
	params  []string
	forward func(p map[string]torch.Tensor, x torch.Tensor) torch.Tensor
}{
	"mlp": {[]string{"w1", "b1", "w2", "b2"}, func(p map[string]torch.Tensor, x torch.Tensor) torch.Tensor {
		h := x.Linear(p["w1"], p["b1"]).ReLU()
		h = h.Linear(p["w1"], p["b1"]).ReLU()
		return h.Linear(p["w2"], p["b2"])
	}},
	"conv": {[]string{"c1", "cb1", "g", "b", "c2", "cb2", "w", "wb"}, func(p map[string]torch.Tensor,
		x torch.Tensor) torch.Tensor {
		h := x.Conv2d(p["c1"], p["cb1"], torch.ConvOptions{Padding: []int64{1}})
		h = h.BatchNorm(p["g"], p["b"], torch.Tensor{}, torch.Tensor{}, true, 0.1, 1e-5)
		h = h.ReLU().MaxPool2d(torch.PoolOptions{Kernel: []int64{2}})
		h = h.Conv2d(p["c2"], p["cb2"], torch.ConvOptions{})
		h = h.Flatten(1, -1).LayerNorm([]int64{16}, torch.Tensor{}, torch.Tensor{}, 1e-5)
		return h.Linear(p["w"], p["wb"])
	}},
}

func TestTrainingUnderAutocastEqualsPyTorch(t *testing.T) {
	testenv.RequireTorch(t)
	g := golden.Load(t, "testdata/autocast.safetensors")
	for name, model := range models {
		t.Run(name, func(t *testing.T) {
			goldencount.Start(t, "amp", "autocast "+name)
			x, y := g.Tensor(name+"/x"), g.Tensor(name+"/y")
			params := map[string]torch.Tensor{}
			var named []torch.Named
			for _, n := range model.params {
				params[n] = g.Tensor(name + "/init." + n).RequiresGrad()
				named = append(named, torch.Named{Name: n, Tensor: params[n]})
			}
			opt := optim.NewAdamW(named, optim.AdamW{})
			for k := range 3 {
				torch.Scope(func() {
					at := fmt.Sprintf("%s/%d/", name, k)
					var loss torch.Tensor
					amp.Autocast(torch.CPU, amp.BF16, func() {
						logits := model.forward(params, x)
						loss = logits.CrossEntropyLoss(y, torch.Tensor{}, torch.ReductionMean, -100, 0)
						equalBF16(t, at+"logits", logits.Detach(), g.Tensor(at+"logits"))
					})
					equalBF16(t, at+"loss", loss.Detach(), g.Tensor(at+"loss"))
					loss.Backward()
					for n, p := range params {
						equalBF16(t, at+"grad."+n, p.Grad(), g.Tensor(at+"grad."+n))
					}
					opt.Step(0.01)
					opt.ZeroGrad()
				})
			}
			for n, p := range params {
				equalBF16(t, name+"/final."+n, p, g.Tensor(name+"/final."+n))
			}
		})
	}
}

func TestNestedRegionsEqualPyTorch(t *testing.T) {
	testenv.RequireTorch(t)
	g := golden.Load(t, "testdata/autocast.safetensors")
	off := map[string]func(func()){
		"Disabled": func(f func()) { amp.Disabled(torch.CPU, f) },
		"FP32":     func(f func()) { amp.Autocast(torch.CPU, amp.FP32, f) },
	}
	for name, off := range off {
		t.Run(name, func(t *testing.T) {
			goldencount.Start(t, "amp", "autocast nested")
			x, w := g.Tensor("nested/x"), g.Tensor("nested/w")
			var a, b, c, d torch.Tensor
			amp.Autocast(torch.CPU, amp.BF16, func() {
				a = x.Linear(w, torch.Tensor{})
				off(func() {
					b = a.ToDType(torch.Float32).Linear(w, torch.Tensor{})
					amp.Autocast(torch.CPU, amp.BF16, func() { c = b.Linear(w, torch.Tensor{}) })
				})
				d = c.Linear(w, torch.Tensor{})
			})
			for name, got := range map[string]torch.Tensor{"a": a, "b": b, "c": c, "d": d} {
				equalBF16(t, name, got, g.Tensor("nested/"+name))
			}
		})
	}
}

// product computes a product of float32 matrices and returns the dtype of the result.
func product() torch.DType {
	var d torch.DType
	torch.Scope(func() { d = torch.Ones(2, 2).MatMul(torch.Ones(2, 2)).DType() })
	return d
}

func TestARegionEnds(t *testing.T) {
	testenv.RequireTorch(t)
	stop := errors.New("stop")
	tests := []struct {
		name string
		f    func()
	}{
		{"when its function returns", func() {}},
		{"when its function panics with an error of torch", func() { torch.Ones(2).MatMul(torch.Ones(3)) }},
		{"when its function panics otherwise", func() { panic(stop) }},
		{"when a region inside panics", func() { amp.Disabled(torch.CPU, func() { panic(stop) }) }},
		{"when a region inside has the other precision", func() { amp.Autocast(torch.CPU, amp.FP16, func() {}) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			func() {
				defer func() { recover() }()
				amp.Autocast(torch.CPU, amp.BF16, func() {
					if d := product(); d != torch.BFloat16 {
						t.Errorf("inside, products are %s, want bfloat16", d)
					}
					test.f()
					if d := product(); d != torch.BFloat16 {
						t.Errorf("inside, after the function, products are %s, want bfloat16", d)
					}
				})
			}()
			if d := product(); d != torch.Float32 {
				t.Errorf("afterwards, products are %s, want float32", d)
			}
		})
	}
}

func TestARegionIsOfItsGoroutineOnly(t *testing.T) {
	testenv.RequireTorch(t)
	amp.Autocast(torch.CPU, amp.BF16, func() {
		other := make(chan torch.DType)
		go func() { other <- product() }()
		if d := <-other; d != torch.Float32 {
			t.Errorf("in another goroutine, products are %s, want float32", d)
		}
	})
}

// A weight that was changed between two regions must be cast again: the cache ends with the
// outermost region.
func TestCastsAreForgottenAfterTheRegion(t *testing.T) {
	testenv.RequireTorch(t)
	w := torch.Ones(1, 1).RequiresGrad()
	forward := func() (y float64) {
		amp.Autocast(torch.CPU, amp.BF16, func() { y = torch.Ones(1, 1).Linear(w, torch.Tensor{}).Item() })
		return y
	}
	before := forward()
	torch.NoGrad(func() { w.Fill_(3.0) })
	if after := forward(); before != 1 || after != 3 {
		t.Errorf("the products are %g and, with another weight, %g; want 1 and 3", before, after)
	}
}

func TestPrecisionOfProducts(t *testing.T) {
	testenv.RequireTorch(t)
	for p, want := range map[amp.Precision]torch.DType{amp.FP32: torch.Float32, amp.BF16: torch.BFloat16,
		amp.FP16: torch.Float16} {
		amp.Autocast(torch.CPU, p, func() {
			if d := product(); d != want || p.DType() != want {
				t.Errorf("under %s, products are %s and DType() is %s, want %s", p, d, p.DType(), want)
			}
		})
	}
}

func TestUnknownPrecisionIsRefused(t *testing.T) {
	testenv.RequireTorch(t)
	ran := false
	err := torch.Try(func() { amp.Autocast(torch.CPU, amp.Precision(9), func() { ran = true }) })
	if !errors.Is(err, torch.ErrValue) || ran {
		t.Errorf("Autocast with precision(9): error %v, ran %t; want torch.ErrValue and not run", err, ran)
	}
}
