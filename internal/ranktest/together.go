package ranktest

import (
	"context"
	"testing"
	"time"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/local"
)

// Together runs f as each of world ranks, in goroutines of this process, and returns their errors.
// change, which may be nil, changes the options of each. See local.Run.
func Together(t testing.TB, world int, change func(*dist.Options), f func(ctx context.Context,
	g *dist.Group) error) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return local.Run(ctx, world, func(o *dist.Options) {
		o.LocalRank, o.LocalWorld = 0, 0 // which machine each is on is not known, until change says so
		if change != nil {
			change(o)
		}
	}, f)
}
