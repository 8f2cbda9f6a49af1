package sentence

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/torch"
)

// Document is a named text: a query, or a document of the corpus.
type Document struct{ ID, Text string }

// InformationRetrievalEvaluator searches a corpus for the documents relevant to each query and
// scores the results: cosine_ndcg@10 and the other numbers of [metrics.Retrieval], for each
// similarity. Queries and documents get the prompts of EncodeQuery and EncodeDocument.
type InformationRetrievalEvaluator struct {
	Queries, Corpus []Document
	Relevant        map[string][]string // the IDs of documents by the ID of a query; a query without any is left out
	Metrics         metrics.Retrieval   // at which k; the zero value is that of sentence-transformers
	CorpusChunkSize int                 // documents at a time; zero: 50,000
	EvaluatorOptions
}

// Check requires unique IDs of queries and of documents.
func (e InformationRetrievalEvaluator) Check(*Transformer) error {
	const kind = "InformationRetrievalEvaluator"
	if len(e.queries()) == 0 || len(e.Corpus) == 0 {
		return fmt.Errorf("sentence: %s has %d queries with relevant documents, and %d documents; want some of both", kind,
			len(e.queries()), len(e.Corpus))
	}
	for what, list := range map[string][]Document{"queries": e.Queries, "documents": e.Corpus} {
		seen := map[string]bool{}
		for _, d := range list {
			if seen[d.ID] {
				return fmt.Errorf("sentence: %s has several %s with the ID %q; want unique IDs", kind, what, d.ID)
			}
			seen[d.ID] = true
		}
	}
	if e.Metrics.MaxK() < 1 || e.CorpusChunkSize < 0 {
		return fmt.Errorf("sentence: %s: the largest k of Metrics is %d and CorpusChunkSize %d; want numbers above 0", kind,
			e.Metrics.MaxK(), e.CorpusChunkSize)
	}
	return e.check(kind)
}

// queries returns the queries that have relevant documents.
func (e InformationRetrievalEvaluator) queries() []Document {
	return slices.DeleteFunc(slices.Clone(e.Queries), func(d Document) bool { return len(e.Relevant[d.ID]) == 0 })
}

// hit is a document that was found.
type hit struct {
	score float32
	id    string
}

// Evaluate searches, and returns the scores.
func (e InformationRetrievalEvaluator) Evaluate(ctx context.Context, m *Transformer) (map[string]float64, error) {
	if err := e.Check(m); err != nil {
		return nil, err
	}
	o := e.encode()
	o.BatchSize = e.BatchSize // zero means the default of Encode
	queries, similar := e.queries(), e.similarities(m)
	asked, err := m.EncodeQuery(ctx, textsOf(queries), o)
	if err != nil {
		return nil, err
	}
	hits := make([][][]hit, len(similar)) // by similarity function and query
	for i := range hits {
		hits[i] = make([][]hit, len(queries))
	}
	for chunk := range slices.Chunk(e.Corpus, cmp.Or(e.CorpusChunkSize, 50000)) {
		found, err := m.EncodeDocument(ctx, textsOf(chunk), o)
		if err != nil {
			return nil, err
		}
		for i, f := range similar {
			err := compare(f, asked, found, func(f SimilarityFunction, a, b torch.Tensor) {
				for q, scores := range rowsOf(f.Matrix(a, b)) {
					hits[i][q] = best(hits[i][q], scores, chunk, e.Metrics.MaxK())
				}
			})
			if err != nil {
				return nil, err
			}
		}
	}
	all := map[string]float64{}
	for i, f := range similar {
		score := e.Metrics
		score.Reset()
		for q, query := range queries {
			ranking := make([]string, len(hits[i][q]))
			for k, h := range hits[i][q] {
				ranking[k] = h.id
			}
			score.Add(ranking, e.Relevant[query.ID])
		}
		for name, value := range score.Result() {
			all[string(f)+"_"+name] = value
		}
	}
	return e.named(all), nil
}

func textsOf(documents []Document) []string {
	texts := make([]string, len(documents))
	for i, d := range documents {
		texts[i] = d.Text
	}
	return texts
}

// best merges the scores of some documents into hits and keeps the k best. Ties are ordered by id.
func best(hits []hit, scores []float32, documents []Document, k int) []hit {
	for i, d := range documents {
		h := hit{scores[i], d.ID}
		if len(hits) == k && before(hits[k-1], h) <= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(hits, h, before)
		hits = slices.Insert(hits, at, h)
		hits = hits[:min(k, len(hits))]
	}
	return hits
}

// before compares two hits for sorting, best first.
func before(a, b hit) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.id, b.id))
}
