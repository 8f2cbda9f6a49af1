package ranktest

import (
	"context"
	"testing"
	"time"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/local"
)

// Together runs f as each rank, in goroutines of this process, and returns their errors. change may
// be nil; otherwise it modifies the options of each rank. See local.Run.
func Together(t testing.TB, world int, change func(*dist.Options), f func(ctx context.Context,
	g *dist.Group) error) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return local.Run(ctx, world, func(o *dist.Options) {
		o.LocalRank, o.LocalWorld = 0, 0 // machines are unknown unless change sets them
		if change != nil {
			change(o)
		}
	}, f)
}
