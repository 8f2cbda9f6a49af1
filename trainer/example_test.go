package trainer_test

import (
	"context"
	"fmt"
	"io"

	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// Three batches and accumulation over two: the short last window is divided by its own length and is an update too.
func ExampleTrainer_Fit_accumulate() {
	step := new(trainertest.Step)
	t, err := trainer.New(step, trainer.Options{
		Epochs: 1, BatchSize: 1, Accumulate: 2, LearningRate: 0.1, Schedule: lr.Linear{}, Progress: io.Discard,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := t.Fit(context.Background(), trainertest.Samples(3), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(step.Trace())
	fmt.Println(result.GlobalStep, "updates")
	// Output:
	// train(0/2) train(2/2) update(0.1) train(1) update(0.05)
	// 2 updates
}
