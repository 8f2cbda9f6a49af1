package tensor_test

import (
	"context"
	"fmt"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/local"
	"github.com/gotrainer/gotrainer/dist/tensor"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// Two ranks train one MLP, each computing half of its features. Here the ranks are goroutines; in a
// real run each is a process, and dist.Init(ctx, dist.Options{}) finds the others through the
// environment.
func Example() {
	const rate = 0.1
	held := make([]int64, 2)
	errs := local.Run(context.Background(), 2, nil, func(ctx context.Context, g *dist.Group) error {
		model := nn.Sequential{nn.NewLinear(4, 8, nil), nn.ReLU{}, nn.NewLinear(8, 1, nil)}
		m, err := tensor.Parallelize(ctx, g, model, tensor.Plan{"0": tensor.Colwise, "2": tensor.Rowwise})
		if err != nil {
			return err
		}
		opt, err := optim.SGD{LR: rate}.Build([]optim.Group{{Params: nn.Params(model)}})
		if err != nil {
			return err
		}
		for range 3 {
			x := torch.Ones(2, 4) // the same on both
			err := torch.Try(func() { model.Forward(x).SubScalar(1).Square().Mean(torch.DefaultDType).Backward() })
			if err != nil {
				return err
			}
			if _, err := m.ClipGradNorm(ctx, 1); err != nil {
				return err
			}
			opt.Step(rate)
			opt.ZeroGrad()
		}
		held[g.Rank()], _ = nn.CountParams(model)
		return nil
	})
	fmt.Println("of 49 numbers each rank has", held, errs)
	// Output: of 49 numbers each rank has [25 25] [<nil> <nil>]
}
