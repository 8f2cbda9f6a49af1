package dist_test

import (
	"context"
	"fmt"

	"github.com/gotrainer/gotrainer/dist"
)

func ExampleInit() {
	ctx := context.Background()
	g, err := dist.Init(ctx, dist.Options{}) // a program that was started alone is a group of one
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = g.Close() }()
	loss := []float64{0.5}
	if err := dist.AllReduce(ctx, g, loss, dist.Mean); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("rank %d of %d, mean loss %g\n", g.Rank(), g.World(), loss[0])
	// Output: rank 0 of 1, mean loss 0.5
}
