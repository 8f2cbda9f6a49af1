package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// Three batches and accumulation over two: the short last window is divided by its own length and
// is an update too.
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

type stopAtTen struct{}

func (stopAtTen) StepEnd(r *trainer.Run) error {
	if r.GlobalStep >= 10 {
		r.Stop("ten updates are enough")
	}
	return nil
}

// A callback is any value with one of the methods in hooks.go.
func ExampleRun_Stop() {
	t, err := trainer.New(new(trainertest.Step), trainer.Options{Callbacks: []any{stopAtTen{}}, Progress: io.Discard})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := t.Fit(context.Background(), trainertest.Samples(1000), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.GlobalStep, "updates:", r.StopReason)
	// Output: 10 updates: ten updates are enough
}

// A context that is cancelled ends a run after its update, with a checkpoint; a run with
// the same options continues from there.
func ExampleLatest() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	options := trainer.Options{OutputDir: dir, Epochs: 1, BatchSize: 10, ResumeFrom: trainer.Latest,
		Progress: io.Discard}
	fit := func(ctx context.Context, step *trainertest.Step) (*trainer.Result, error) {
		t, err := trainer.New(step, options)
		if err != nil {
			return nil, err
		}
		return t.Fit(ctx, trainertest.Samples(60), nil)
	}

	ctx, cancel := context.WithCancel(context.Background())
	_, err = fit(ctx, &trainertest.Step{Inject: func(op string, n int) error {
		if op == "train" && n == 3 {
			cancel()
		}
		return nil
	}})
	var interrupted *trainer.InterruptedError
	fmt.Println(errors.Is(err, context.Canceled), errors.As(err, &interrupted) && interrupted.GlobalStep == 3)

	second := new(trainertest.Step)
	r, err := fit(context.Background(), second)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.GlobalStep, "updates,", strings.Count(second.Trace(), "update"), "of them in the second session")
	// Output:
	// true true
	// 6 updates, 3 of them in the second session
}
