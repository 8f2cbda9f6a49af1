package amp_test

import (
	"fmt"
	"log"
	"math"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// Products are computed in bfloat16, the loss and the gradients of the weights in float32.
func ExampleAutocast() {
	x, y := torch.Ones(4, 2), torch.Zeros(4, 1)
	w := torch.Ones(1, 2).RequiresGrad()
	var loss torch.Tensor
	amp.Autocast(torch.CPU, amp.BF16, func() {
		out := x.Linear(w, torch.Tensor{})
		loss = out.MSELoss(y, torch.ReductionMean)
		fmt.Println("product", out.DType(), "loss", loss.DType())
	})
	loss.Backward()
	fmt.Println("gradient", w.Grad().DType(), torch.Values[float32](w.Grad()))
	// Output:
	// product bfloat16 loss float32
	// gradient float32 [4 4]
}

// A gradient overflows in the second update: its step is left out, and the scale halved.
func ExampleGradScaler() {
	w := torch.Ones(1).RequiresGrad()
	opt := optim.NewSGD([]torch.Named{{Name: "w", Tensor: w}}, optim.SGD{})
	scaler := amp.NewGradScaler(amp.GradScalerOptions{})
	for _, factor := range []float64{1, math.Inf(1), 1} {
		torch.Scope(func() {
			scaler.Scale(w.MulScalar(factor).Sum(0)).Backward()
			applied, err := scaler.Step(opt, 0.25)
			if err != nil {
				log.Fatal(err)
			}
			if err := scaler.Update(); err != nil {
				log.Fatal(err)
			}
			opt.ZeroGrad()
			fmt.Printf("applied %t, w %g, scale %g\n", applied, w.Item(), scaler.GetScale())
		})
	}
	// Output:
	// applied true, w 0.75, scale 65536
	// applied false, w 0.75, scale 32768
	// applied true, w 0.5, scale 32768
}
