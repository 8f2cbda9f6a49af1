package ranktest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/tcpstore"
)

// Together runs f as each of world ranks, in goroutines of this process, and returns their errors.
// change, which may be nil, changes the options of each.
func Together(t testing.TB, world int, change func(*dist.Options), f func(ctx context.Context,
	g *dist.Group) error) []error {
	t.Helper()
	store, err := tcpstore.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	errs := make([]error, world)
	var ranks sync.WaitGroup
	for rank := range world {
		ranks.Go(func() {
			o := dist.Options{Rank: rank, World: world, Address: store.Addr().String(), Store: true}
			if change != nil {
				change(&o)
			}
			g, err := dist.Init(ctx, o)
			if err != nil {
				errs[rank] = err
				return
			}
			errs[rank] = f(ctx, g)
			_ = g.Close()
		})
	}
	ranks.Wait()
	return errs
}
