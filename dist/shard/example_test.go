package shard_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/dist/tcpstore"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// Two ranks train two layers; between passes each rank holds half of each. Here the ranks are
// goroutines; in a real run each is a process, and dist.Init(ctx, dist.Options{}) finds the others
// through the environment.
func Example() {
	store, err := tcpstore.Listen("127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close() //nolint:errcheck // the ranks have left
	rank := func(ctx context.Context, n int) (held int64, err error) {
		g, err := dist.Init(ctx, dist.Options{Rank: n, World: 2, Address: store.Addr().String(), Store: true})
		if err != nil {
			return 0, err
		}
		defer g.Close() //nolint:errcheck // the example is over
		layers := []*nn.Linear{nn.NewLinear(4, 4, nil), nn.NewLinear(4, 4, nil)}
		units := make([]*shard.Unit, len(layers))
		for i, l := range layers {
			if units[i], err = shard.FullyShard(ctx, g, l); err != nil {
				return 0, err
			}
		}
		m, err := shard.New(ctx, g, layers, shard.Options{Strategy: shard.FullShard, Units: units})
		if err != nil {
			return 0, err
		}
		opt, err := m.Optimizer(optim.AdamW{LR: 1e-2}, nil)
		if err != nil {
			return 0, err
		}
		for range 3 {
			if err := m.BeforeForward(ctx, true); err != nil {
				return 0, err
			}
			x := torch.Full(float64(1+n), 2, 4)
			for i, l := range layers {
				x = units[i].Run(func(in []torch.Tensor) []torch.Tensor {
					return []torch.Tensor{l.Forward(in[0]).Tanh()}
				}, x)[0]
			}
			loss := x.Square().Mean(torch.DefaultDType)
			if err := m.Backward(ctx, loss.Backward, loss); err != nil {
				return 0, err
			}
			if err := m.Step(ctx, opt, 1e-2); err != nil {
				return 0, err
			}
			m.ZeroGrad()
		}
		for _, p := range m.Pieces() {
			held += p.Tensor.Numel()
		}
		return held, nil
	}
	var held [2]int64
	var errs [2]error
	var ranks sync.WaitGroup
	for n := range 2 {
		ranks.Go(func() { held[n], errs[n] = rank(context.Background(), n) })
	}
	ranks.Wait()
	fmt.Println("of 40 numbers each rank has", held, errs)
	// Output: of 40 numbers each rank has [20 20] [<nil> <nil>]
}
