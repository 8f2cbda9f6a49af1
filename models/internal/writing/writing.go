// Package writing is how evaluations of tasks have a model write, and score what it has written:
// predict_with_generate of transformers.
package writing

import (
	"fmt"

	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Written is what a model wrote, and what it should have written.
type Written struct{ Got, Want string }

// Evaluation is a part of a task. The zero value has nothing written.
type Evaluation struct {
	engine.Observations[Written]
	write  func(p engine.ForwardPass, b inputs.Batch) []string
	scores []metrics.Metric[string]
}

// New makes that of the task of a package, of its TaskOptions.Write and Metrics.
func New(pkg string, write func(p engine.ForwardPass, b inputs.Batch) []string,
	scores []metrics.Metric[string]) (Evaluation, error) {
	if (write == nil) != (len(scores) == 0) {
		return Evaluation{}, fmt.Errorf("%s: TaskOptions.Write and Metrics go together: metrics are of what is written", pkg)
	}
	return Evaluation{write: write, scores: scores}, nil
}

// Writes tells whether something is written.
func (e *Evaluation) Writes() bool { return e.write != nil }

// Score has the model write about the texts of a batch of an evaluation, in a pass.
func (e *Evaluation) Score(p engine.ForwardPass, b inputs.Batch, targets []string) {
	p.Autocast(func() {
		for i, s := range e.write(p, b) {
			e.Note(Written{s, targets[i]})
		}
	})
}

// Metrics are those of what was written.
func (e *Evaluation) Metrics() map[string]float64 {
	for _, w := range e.Noted() {
		for _, m := range e.scores {
			m.Add(w.Got, w.Want)
		}
	}
	return engine.Results(e.scores)
}
