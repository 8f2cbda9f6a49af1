package ddp_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/dist/tcpstore"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Two ranks see different batches; their gradients, 1 and 3, become the mean on both. Here the
// ranks are goroutines; in a real run each is a process, and dist.Init(ctx, dist.Options{}) finds
// the others through the environment.
func Example() {
	store, err := tcpstore.Listen("127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close() //nolint:errcheck // the ranks have left
	rank := func(ctx context.Context, n int) (float64, error) {
		g, err := dist.Init(ctx, dist.Options{Rank: n, World: 2, Address: store.Addr().String(), Store: true})
		if err != nil {
			return 0, err
		}
		defer g.Close() //nolint:errcheck // the example is over
		layer := nn.NewLinear(1, 1, &nn.LinearOptions{NoBias: true})
		model, err := ddp.New(ctx, g, layer, ddp.Options{}) // the weights of rank 0 are everybody's now
		if err != nil {
			return 0, err
		}
		if err := model.BeforeForward(ctx, true); err != nil {
			return 0, err
		}
		loss := layer.Forward(torch.From([]float32{float32(1 + 2*n)}, 1, 1)).Sum(torch.DefaultDType)
		if err := model.Backward(ctx, loss.Backward, loss); err != nil {
			return 0, err
		}
		return layer.Weight.Grad().Item(), nil
	}
	var gradients [2]float64
	var errs [2]error
	var ranks sync.WaitGroup
	for n := range 2 {
		ranks.Go(func() { gradients[n], errs[n] = rank(context.Background(), n) })
	}
	ranks.Wait()
	fmt.Println(gradients, errs)
	// Output: [2 2] [<nil> <nil>]
}
