package trainertest_test

import (
	"context"
	"fmt"
	"io"

	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// A scaler that skips the first update: it counts as a step, and the rate does not move.
func ExampleStep() {
	step := &trainertest.Step{Skip: func(update int) bool { return update == 1 }}
	t, err := trainer.New(step, trainer.Options{Epochs: 1, BatchSize: 2, LearningRate: 1, Schedule: lr.Linear{},
		Progress: io.Discard})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := t.Fit(context.Background(), trainertest.Samples(5), trainertest.Samples(2)); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(step.Trace())
	// Output: train(2,4) update(1) train(3,0) update(1) train(1) update(0.6667) eval(0,1) metrics
}
