// Package writing is the part of a task's evaluation in which a model generates texts that are then
// scored: predict_with_generate of transformers.
package writing

import (
	"fmt"

	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Written is a text that a model generated, and the expected text.
type Written struct{ Got, Want string }

// Evaluation is embedded in tasks whose texts are generated from inputs of type B. The zero value
// generates nothing.
type Evaluation[B any] struct {
	engine.Observations[Written]
	write  func(p engine.ForwardPass, b B) []string
	scores []metrics.Metric[string]
}

// New makes the evaluation of a task in package pkg from its TaskOptions.Write and Metrics.
func New[B any](pkg string, write func(p engine.ForwardPass, b B) []string,
	scores []metrics.Metric[string]) (Evaluation[B], error) {
	if (write == nil) != (len(scores) == 0) {
		return Evaluation[B]{}, fmt.Errorf("%s: TaskOptions.Write and Metrics go together: Metrics score Write's texts", pkg)
	}
	return Evaluation[B]{write: write, scores: scores}, nil
}

// Writes reports whether texts are generated.
func (e *Evaluation[B]) Writes() bool { return e.write != nil }

// Score generates texts for an evaluation batch and records them together with the targets.
func (e *Evaluation[B]) Score(p engine.ForwardPass, b B, targets []string) {
	p.Autocast(func() {
		for i, s := range e.write(p, b) {
			e.Note(Written{s, targets[i]})
		}
	})
}

// Metrics returns the metrics of the generated texts.
func (e *Evaluation[B]) Metrics() map[string]float64 {
	for _, w := range e.Noted() {
		for _, m := range e.scores {
			m.Add(w.Got, w.Want)
		}
	}
	return engine.Results(e.scores)
}
