// Package callback has callbacks for package trainer. They use only its public API, so each is also
// an example of how to write one:
//
//	trainer.Options{
//		MetricForBest: "accuracy",
//		Callbacks:     []any{&callback.EarlyStopping{Patience: 3}},
//	}
//
// Metrics files and the progress of a run are not here. Every run has them, so package trainer
// writes them itself.
package callback
