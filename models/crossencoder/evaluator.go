package crossencoder

import (
	"context"
	"fmt"

	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/internal/sbert"
)

// Evaluator measures a model on its own texts. The evaluations of a run report the results
// ([TaskOptions].Evaluators).
type Evaluator interface {
	// Check refuses, before a run begins, what Evaluate would refuse.
	Check(m *CrossEncoder) error
	// Evaluate returns the results by name.
	Evaluate(ctx context.Context, m *CrossEncoder) (map[string]float64, error)
}

// EvaluatorOptions are the options of all evaluators.
type EvaluatorOptions struct {
	Name       string // prefix of the names of metrics, before a _; zero: none
	PromptName string // names one of the model's Prompts; zero: DefaultPromptName
	BatchSize  int    // pairs at a time; zero: 32, and for reranking 64
}

func (o EvaluatorOptions) check(kind string, m *CrossEncoder) error {
	if o.BatchSize < 0 {
		return fmt.Errorf("crossencoder: %s: BatchSize is %d; want a number above 0, or 0 for the default", kind, o.BatchSize)
	}
	if _, err := m.prompts().Of(o.PromptName, nil); err != nil {
		return fmt.Errorf("crossencoder: %s: %w", kind, err)
	}
	return nil
}

func (o EvaluatorOptions) predict() PredictOptions {
	return PredictOptions{PromptName: o.PromptName, BatchSize: o.BatchSize}
}

// named prefixes the names of metrics with Name.
func (o EvaluatorOptions) named(all map[string]float64) map[string]float64 {
	return sbert.Named(o.Name, all)
}

// CrossEncoderClassificationEvaluator compares the scores of pairs with their classes.
//
//   - For a model with one label, classes are 0 and 1. It gives average_precision, and accuracy and
//     f1 at the threshold that suits them best: accuracy, accuracy_threshold, f1, f1_threshold,
//     precision and recall (of f1).
//   - For a model with several labels it gives f1_macro, f1_micro and f1_weighted.
type CrossEncoderClassificationEvaluator struct {
	Pairs  [][2]string
	Labels []int
	EvaluatorOptions
}

// Check requires as many labels as pairs, and classes that the model has.
func (e CrossEncoderClassificationEvaluator) Check(m *CrossEncoder) error {
	const kind = "CrossEncoderClassificationEvaluator"
	if len(e.Pairs) == 0 || len(e.Labels) != len(e.Pairs) {
		return fmt.Errorf("crossencoder: %s has %d pairs and %d labels; want as many of each", kind, len(e.Pairs),
			len(e.Labels))
	}
	last := max(1, m.NumLabels()-1)
	for i, label := range e.Labels {
		if label < 0 || label > last {
			return fmt.Errorf("crossencoder: %s: label %d is %d; want 0 to %d", kind, i, label, last)
		}
	}
	return e.check(kind, m)
}

// Evaluate returns the numbers above.
func (e CrossEncoderClassificationEvaluator) Evaluate(ctx context.Context, m *CrossEncoder) (map[string]float64,
	error) {
	if err := e.Check(m); err != nil {
		return nil, err
	}
	rows, err := m.Predict(ctx, e.Pairs, e.predict())
	if err != nil {
		return nil, err
	}
	if m.NumLabels() == 1 {
		return e.named(binaryScores(firstOf(rows), e.Labels)), nil
	}
	all := map[string]float64{}
	for name, average := range map[string]metrics.Average{"f1_macro": metrics.Macro(), "f1_micro": metrics.Micro(),
		"f1_weighted": metrics.Weighted()} {
		f := metrics.F1{Average: average}
		for i, scores := range rows {
			best := 0
			for class, score := range scores {
				if score > scores[best] {
					best = class
				}
			}
			f.Add(best, e.Labels[i])
		}
		all[name] = f.Result()["f1"]
	}
	return e.named(all), nil
}

// firstOf returns the first number of each row.
func firstOf(rows [][]float32) []float32 {
	first := make([]float32, len(rows))
	for i, row := range rows {
		first[i] = row[0]
	}
	return first
}

// CrossEncoderCorrelationEvaluator compares the scores of pairs with those that they should have:
// pearson and spearman. The model must have one label.
type CrossEncoderCorrelationEvaluator struct {
	Pairs  [][2]string
	Scores []float64
	EvaluatorOptions
}

// Check requires as many scores as pairs, and at least two.
func (e CrossEncoderCorrelationEvaluator) Check(m *CrossEncoder) error {
	const kind = "CrossEncoderCorrelationEvaluator"
	if n := len(e.Scores); n < 2 || len(e.Pairs) != n {
		return fmt.Errorf("crossencoder: %s has %d pairs and %d scores; want as many of each, and 2 at least", kind,
			len(e.Pairs), n)
	}
	if err := wantsOneLabel(kind, m); err != nil {
		return err
	}
	return e.check(kind, m)
}

func wantsOneLabel(kind string, m *CrossEncoder) error {
	if n := m.NumLabels(); n != 1 {
		return fmt.Errorf("crossencoder: %s: the model has %d labels; want one, which is the score", kind, n)
	}
	return nil
}

// Evaluate returns the correlations.
func (e CrossEncoderCorrelationEvaluator) Evaluate(ctx context.Context, m *CrossEncoder) (map[string]float64, error) {
	if err := e.Check(m); err != nil {
		return nil, err
	}
	rows, err := m.Predict(ctx, e.Pairs, e.predict())
	if err != nil {
		return nil, err
	}
	both := metrics.All[float64]{&metrics.Pearson{}, &metrics.Spearman{}}
	for i, score := range firstOf(rows) {
		both.Add(float64(score), e.Scores[i])
	}
	return e.named(both.Result()), nil
}
