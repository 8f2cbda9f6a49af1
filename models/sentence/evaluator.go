package sentence

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/internal/sbert"
)

// Evaluator measures a model on its own texts. The evaluations of a run report the results
// ([TaskOptions].Evaluators).
type Evaluator interface {
	// Check refuses, before a run begins, what Evaluate would refuse.
	Check(m *Transformer) error
	// Evaluate returns the results by name.
	Evaluate(ctx context.Context, m *Transformer) (map[string]float64, error)
}

// EvaluatorOptions are the options of all evaluators.
type EvaluatorOptions struct {
	Name          string               // prefix of the names of metrics, before a _; zero: none
	SimilarityFns []SimilarityFunction // nil: the model's; several also give their maximum
	BatchSize     int                  // zero: 16, and for retrieval 32
	TruncateDim   int                  // how many numbers of an embedding to keep; zero: the model's TruncateDim
}

func (o EvaluatorOptions) check(kind string) error {
	for _, f := range o.SimilarityFns {
		if _, err := f.check(); err != nil {
			return fmt.Errorf("sentence: %s: %w", kind, err)
		}
	}
	if o.BatchSize < 0 || o.TruncateDim < 0 {
		return fmt.Errorf("sentence: %s: BatchSize is %d and TruncateDim %d; want numbers above 0, or 0 for the default",
			kind, o.BatchSize, o.TruncateDim)
	}
	return nil
}

func (o EvaluatorOptions) encode() EncodeOptions {
	e := EncodeOptions{BatchSize: 16, TruncateDim: o.TruncateDim}
	if o.BatchSize > 0 {
		e.BatchSize = o.BatchSize
	}
	return e
}

// similarities returns the similarity functions to measure with.
func (o EvaluatorOptions) similarities(m *Transformer) []SimilarityFunction {
	if len(o.SimilarityFns) > 0 {
		return o.SimilarityFns
	}
	f, _ := m.SimilarityFn.check()
	return []SimilarityFunction{f}
}

// named prefixes the names of metrics with Name.
func (o EvaluatorOptions) named(all map[string]float64) map[string]float64 {
	return sbert.Named(o.Name, all)
}

// EmbeddingSimilarityEvaluator compares the similarity of pairs with their scores: pearson_cosine
// and spearman_cosine, and with several similarities also pearson_max and spearman_max.
type EmbeddingSimilarityEvaluator struct {
	Sentences1, Sentences2 []string
	Scores                 []float64
	EvaluatorOptions
}

// Check requires as many scores as pairs, and at least two.
func (e EmbeddingSimilarityEvaluator) Check(*Transformer) error {
	if n := len(e.Scores); n < 2 || len(e.Sentences1) != n || len(e.Sentences2) != n {
		return fmt.Errorf("sentence: EmbeddingSimilarityEvaluator has %d and %d texts and %d scores; want as many of each, "+
			"and 2 at least", len(e.Sentences1), len(e.Sentences2), n)
	}
	return e.check("EmbeddingSimilarityEvaluator")
}

// Evaluate returns the correlations.
func (e EmbeddingSimilarityEvaluator) Evaluate(ctx context.Context, m *Transformer) (map[string]float64, error) {
	if err := e.Check(m); err != nil {
		return nil, err
	}
	a, err := m.Encode(ctx, e.Sentences1, e.encode())
	if err != nil {
		return nil, err
	}
	b, err := m.Encode(ctx, e.Sentences2, e.encode())
	if err != nil {
		return nil, err
	}
	all := map[string]float64{}
	for _, kind := range []metrics.Metric[float64]{&metrics.Pearson{}, &metrics.Spearman{}} {
		var values []float64
		for _, f := range e.similarities(m) {
			scores, err := pairwise(f, a, b)
			if err != nil {
				return nil, err
			}
			kind.Reset()
			for i, score := range scores {
				kind.Add(float64(score), e.Scores[i])
			}
			value := kind.Result()[kind.Name()]
			all[kind.Name()+"_"+string(f)] = value
			values = append(values, value)
		}
		if len(values) > 1 {
			all[kind.Name()+"_max"] = slices.Max(values)
		}
	}
	return e.named(all), nil
}

// TripletEvaluator counts the anchors that are more similar to their positive than to their
// negative, by a margin: cosine_accuracy, and with several similarities also max_accuracy. Anchors
// are encoded as queries, the others as documents.
type TripletEvaluator struct {
	Anchors, Positives, Negatives []string
	Margin                        map[SimilarityFunction]float64 // nil: 0
	EvaluatorOptions
}

// Check requires the same number of anchors, positives and negatives.
func (e TripletEvaluator) Check(*Transformer) error {
	if n := len(e.Anchors); n == 0 || len(e.Positives) != n || len(e.Negatives) != n {
		return fmt.Errorf("sentence: TripletEvaluator has %d anchors, %d positives and %d negatives; want as many of each",
			len(e.Anchors), len(e.Positives), len(e.Negatives))
	}
	for _, f := range slices.Sorted(maps.Keys(e.Margin)) {
		if _, err := f.check(); err != nil {
			return fmt.Errorf("sentence: TripletEvaluator.Margin: %w", err)
		}
	}
	return e.check("TripletEvaluator")
}

// Evaluate returns the accuracies.
func (e TripletEvaluator) Evaluate(ctx context.Context, m *Transformer) (map[string]float64, error) {
	if err := e.Check(m); err != nil {
		return nil, err
	}
	anchors, err := m.EncodeQuery(ctx, e.Anchors, e.encode())
	if err != nil {
		return nil, err
	}
	positives, err := m.EncodeDocument(ctx, e.Positives, e.encode())
	if err != nil {
		return nil, err
	}
	negatives, err := m.EncodeDocument(ctx, e.Negatives, e.encode())
	if err != nil {
		return nil, err
	}
	all := map[string]float64{}
	best := 0.0
	similar := e.similarities(m)
	for _, f := range similar {
		near, err := pairwise(f, anchors, positives)
		if err != nil {
			return nil, err
		}
		far, err := pairwise(f, anchors, negatives)
		if err != nil {
			return nil, err
		}
		right := 0
		for i := range near {
			if near[i] > far[i]+float32(e.Margin[f]) {
				right++
			}
		}
		accuracy := float64(right) / float64(len(near))
		all[string(f)+"_accuracy"] = accuracy
		best = max(best, accuracy)
	}
	if len(similar) > 1 {
		all["max_accuracy"] = best
	}
	return e.named(all), nil
}
