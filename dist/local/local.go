// Package local runs the processes of a distributed program as goroutines of one process: for
// tests, and to see what several processes do, in a debugger for example. Their groups are real
// groups of package dist, connected over this machine's loopback interface. A Trainer, an
// Accelerator and package dist/ddp take them like those of a launcher.
//
//	errs := local.Run(ctx, 4, nil, func(ctx context.Context, g *dist.Group) error {
//		t, err := trainer.New(step(g.Rank()), trainer.Options{Group: g, OutputDir: dir})
//		...
//	})
//
// The goroutines share what belongs to a process: environment, signals, threads, libtorch's seed.
// Their speed is not that of real processes.
//
// For one process of very many, without the others, see dist.Options.Fake.
package local

import (
	"context"
	"fmt"
	"sync"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/tcpstore"
)

// Run runs f once for each of world processes, in goroutines, and returns their errors by rank
// when all have ended. When f returns, the group of its rank is closed, and others that wait for
// that rank fail with dist.ErrPeerLeft. change may be nil; otherwise it changes the options of
// each process before it joins, when Rank, LocalRank, World, LocalWorld, Address and Store are
// already set. It is called by several goroutines at the same time.
func Run(ctx context.Context, world int, change func(o *dist.Options),
	f func(ctx context.Context, g *dist.Group) error) []error {
	if world < 1 {
		return []error{fmt.Errorf("local: Run with %d processes: want at least 1", world)}
	}
	errs := make([]error, world)
	store, err := tcpstore.Listen("127.0.0.1:0")
	if err != nil {
		for rank := range errs {
			errs[rank] = fmt.Errorf("local: the store of the processes: %w", err)
		}
		return errs
	}
	defer func() { _ = store.Close() }()
	var ranks sync.WaitGroup
	for rank := range world {
		ranks.Go(func() {
			o := dist.Options{Rank: rank, LocalRank: rank, World: world, LocalWorld: world,
				Address: store.Addr().String(), Store: true}
			if change != nil {
				change(&o)
			}
			g, err := dist.Init(ctx, o)
			if err != nil {
				errs[rank] = err
				return
			}
			defer func() { _ = g.Close() }()
			errs[rank] = f(ctx, g)
		})
	}
	ranks.Wait()
	return errs
}
