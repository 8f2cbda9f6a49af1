package crossencoder

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// RerankingSample is a query with the documents to be ranked: Positive and Negative ones, or
// Documents as a search found them, the best first.
type RerankingSample struct {
	Query     string
	Positive  []string // the relevant documents
	Negative  []string // others; without Documents
	Documents []string // what a search found; without Negative
}

// CrossEncoderRerankingEvaluator ranks the documents of each query: map, mrr@10 and ndcg@10, as
// means over the queries. If there are Documents, base_map, base_mrr@10 and base_ndcg@10 are those
// of the order that they had, in which positives that are not among them come last. Documents with
// equal scores count for ndcg with the mean of their ranks, and for mrr the later one comes first.
// The model must have one label.
type CrossEncoderRerankingEvaluator struct {
	Samples []RerankingSample
	AtK     int // of mrr and ndcg: at_k; zero: 10
	// DocumentsOnly ranks Documents as they are, without positives that are not among them. A search
	// that missed them then counts against the ranking: always_rerank_positives=False.
	DocumentsOnly bool
	EvaluatorOptions
}

// Check requires samples with either negatives or documents.
func (e CrossEncoderRerankingEvaluator) Check(m *CrossEncoder) error {
	const kind = "CrossEncoderRerankingEvaluator"
	if len(e.Samples) == 0 {
		return fmt.Errorf("crossencoder: %s has no samples", kind)
	}
	for i, s := range e.Samples {
		if (len(s.Negative) > 0) == (len(s.Documents) > 0) {
			return fmt.Errorf("crossencoder: %s: sample %d has %d Negative and %d Documents; want one of the two", kind, i,
				len(s.Negative), len(s.Documents))
		}
	}
	if e.AtK < 0 {
		return fmt.Errorf("crossencoder: %s: AtK is %d; want a number above 0, or 0 for 10", kind, e.AtK)
	}
	if err := wantsOneLabel(kind, m); err != nil {
		return err
	}
	return e.check(kind, m)
}

// documents returns what is ranked for a sample, and which of it is relevant.
func (e CrossEncoderRerankingEvaluator) documents(s RerankingSample) (documents []string, relevant []bool) {
	if len(s.Documents) > 0 && e.DocumentsOnly {
		return s.Documents, among(s.Documents, s.Positive)
	}
	documents = slices.Concat(s.Positive, s.Negative)
	for i, found := range among(s.Documents, s.Positive) {
		if !found {
			documents = append(documents, s.Documents[i])
		}
	}
	relevant = make([]bool, len(documents))
	for i := range s.Positive {
		relevant[i] = true
	}
	return documents, relevant
}

// among reports which documents are positive.
func among(documents, positive []string) []bool {
	relevant := make([]bool, len(documents))
	for i, d := range documents {
		relevant[i] = slices.Contains(positive, d)
	}
	return relevant
}

// base returns the numbers of the documents of a sample in the order that they had.
func (e CrossEncoderRerankingEvaluator) base(s RerankingSample) ranking {
	relevant := among(s.Documents, s.Positive)
	found := count(relevant)
	if found == 0 {
		return ranking{}
	}
	for range len(s.Positive) - found {
		relevant = append(relevant, true)
	}
	scores := make([]float32, len(relevant))
	for i := range scores {
		scores[i] = float32(-i)
	}
	return rankingOf(scores, relevant, e.k())
}

func (e CrossEncoderRerankingEvaluator) k() int { return cmp.Or(e.AtK, 10) }

// Evaluate returns the numbers above.
func (e CrossEncoderRerankingEvaluator) Evaluate(ctx context.Context, m *CrossEncoder) (map[string]float64, error) {
	if err := e.Check(m); err != nil {
		return nil, err
	}
	var pairs [][2]string
	for _, s := range e.Samples {
		documents, _ := e.documents(s)
		for _, d := range documents {
			pairs = append(pairs, [2]string{s.Query, d})
		}
	}
	o := e.predict()
	o.BatchSize = cmp.Or(o.BatchSize, 64)
	rows, err := m.Predict(ctx, pairs, o)
	if err != nil {
		return nil, err
	}
	scores := firstOf(rows)
	var sum, base ranking
	ordered := 0 // samples with Documents
	for _, s := range e.Samples {
		_, relevant := e.documents(s)
		n := len(relevant)
		sum.add(rankingOf(scores[:n], relevant, e.k()))
		scores = scores[n:]
		if len(s.Documents) > 0 {
			base.add(e.base(s))
			ordered++
		}
	}
	all := map[string]float64{}
	sum.report(all, "", e.k(), len(e.Samples))
	if ordered > 0 {
		base.report(all, "base_", e.k(), ordered)
	}
	return e.named(all), nil
}
