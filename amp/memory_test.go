package amp_test

import (
	"runtime"
	"testing"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// A scaler's tensors are made in the scope of the first update and outlive it. Later updates make
// no tensors that remain.
func TestUpdatesOfAScalerHoldNoMoreTensorsAfterTheFirst(t *testing.T) {
	testenv.RequireTorch(t)
	w := torch.Ones(3).RequiresGrad()
	opt := optim.NewAdamW([]torch.Named{{Name: "w", Tensor: w}}, optim.AdamW{})
	scaler := amp.NewGradScaler(amp.GradScalerOptions{})
	update := func() {
		torch.Scope(func() { scaler.Scale(w.Sum(0)).Backward() })
		if _, err := scaler.Step(opt, 0.1); err != nil {
			t.Fatal(err)
		}
		if err := scaler.Update(); err != nil {
			t.Fatal(err)
		}
		opt.ZeroGrad()
	}
	torch.Scope(update)
	runtime.GC()
	before := torch.Live()
	for range 50 {
		update()
		torch.Scope(update)
	}
	if after := torch.Live(); after > before {
		t.Errorf("after 100 more updates there are %d tensors, want at most %d", after, before)
	}
}

func BenchmarkGradScaler(b *testing.B) {
	testenv.RequireTorch(b)
	var params []torch.Named
	for range 60 {
		p := torch.Ones(1).RequiresGrad()
		p.SetGrad(torch.Ones(1))
		params = append(params, torch.Named{Name: string(rune('A' + len(params))), Tensor: p})
	}
	opt := optim.NewSGD(params, optim.SGD{})
	scaler := amp.NewGradScaler(amp.GradScalerOptions{InitScale: 1})
	scaler.Scale(torch.Ones())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := scaler.Step(opt, 1e-3); err != nil {
			b.Fatal(err)
		}
		if err := scaler.Update(); err != nil {
			b.Fatal(err)
		}
	}
}
