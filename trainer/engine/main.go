package engine

import (
	"context"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/trainer"
)

// Main is the main function of a program that trains one model: [NewFromInit], [trainer.New] and
// Fit under [run.Main]. Signals save and leave, exit codes say what failed, and the last line on
// standard error is a JSON record. The function makes the task and its model, whose initial weights
// follow from t.Seed. Valid may be nil. The trainer shows the progress of the run and a table of
// its evaluations, the best one marked, on t.Progress.
//
// Main does not return, so nothing that main has deferred is run. A program with more to do calls
// the parts itself, as examples/mlp does.
func Main[S, B any](task func() Task[S, B], train, valid data.Dataset[S], o Options, t trainer.Options) {
	run.Main(func(ctx context.Context) error {
		step, err := NewFromInit(func() (Task[S, B], error) { return task(), nil }, o)
		if err != nil {
			return err
		}
		tr, err := trainer.New(step, t)
		if err != nil {
			return err
		}
		_, err = tr.Fit(ctx, train, valid)
		return err
	})
}
