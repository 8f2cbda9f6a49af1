// Package callback holds callbacks for package trainer. They use nothing but its public API, so
// each is also an example of how to write one:
//
//	trainer.Options{
//		MetricForBest: "accuracy",
//		Callbacks:     []any{&callback.EarlyStopping{Patience: 3}},
//	}
//
// The metrics files and the progress of a run are not here: every run has them, so package trainer
// writes them itself.
package callback
