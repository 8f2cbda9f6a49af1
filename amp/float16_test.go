package amp_test

import (
	"testing"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// The purpose of scalers: at the first scale, 2^24, the float16 gradients of this loss overflow, so
// the first steps are skipped; the scale falls, and then training converges. One parameter is
// always on the CPU, and its gradients are checked, too.
func TestFloat16TrainingFindsItsScale(t *testing.T) {
	testenv.RequireTorch(t)
	t.Run("on the CPU", func(t *testing.T) { float16Training(t, torch.CPU) })
	t.Run("on a GPU", func(t *testing.T) {
		testenv.RequireCUDA(t)
		float16Training(t, torch.CUDA(0))
	})
}

func float16Training(t *testing.T, d torch.Device) {
	t.Helper()
	x := torch.Arange(8).ToDType(torch.Float32).View(8, 1).ToDevice(d)
	y := x.MulScalar(30.0)
	w, b := torch.Zeros(1, 1).ToDevice(d).RequiresGrad(), torch.Zeros(1).RequiresGrad()
	opt := optim.NewAdamW([]torch.Named{{Name: "w", Tensor: w}, {Name: "b", Tensor: b}},
		optim.AdamW{WeightDecay: new(0.0)})
	scaler := amp.NewGradScaler(amp.GradScalerOptions{InitScale: 1 << 24})
	skipped, first, last := 0, 0.0, 0.0
	for k := range 400 {
		torch.Scope(func() {
			var loss torch.Tensor
			amp.Autocast(d, amp.FP16, func() {
				loss = x.Linear(w, torch.Tensor{}).Add(b.ToDevice(d)).MSELoss(y, torch.ReductionMean)
			})
			if last = loss.Item(); k == 0 {
				first = last
			}
			scaler.Scale(loss).Backward()
			applied, err := scaler.Step(opt, 0.5*float64(400-k)/400)
			if err != nil {
				t.Fatal(err)
			}
			if !applied {
				skipped++
			}
			if err := scaler.Update(); err != nil {
				t.Fatal(err)
			}
			opt.ZeroGrad()
		})
	}
	if last > first/100 {
		t.Errorf("the loss went from %g to %g", first, last)
	}
	if skipped == 0 || opt.Updates() != 400-skipped || scaler.GetScale() >= 1<<24 {
		t.Errorf("%d steps were skipped, %d made, and the scale is %g; want some skipped and a smaller scale than at "+
			"first", skipped, opt.Updates(), scaler.GetScale())
	}
}
