package lr_test

import (
	"fmt"

	"github.com/gotrainer/gotrainer/optim/lr"
)

func Example() {
	rate := lr.Linear{Warmup: 2}.Plan(0.1, 6)
	for update := range 6 {
		fmt.Printf("%.3f ", rate(update))
	}
	// Output: 0.000 0.050 0.100 0.075 0.050 0.025
}

// A warmup below 1 is a share of the run, rounded up.
func ExampleCosine() {
	rate := lr.Cosine{Warmup: 0.1}.Plan(1, 10)
	fmt.Printf("%.2f %.2f %.2f", rate(0), rate(1), rate(9))
	// Output: 0.00 1.00 0.03
}
