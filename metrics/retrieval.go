package metrics

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Retrieval scores the results of searches: InformationRetrievalEvaluator of sentence-transformers.
// A prediction is the names of the documents found, best first; a reference is the names of the
// relevant ones. Names are distinct. For each k it gives, as means over the queries,
//
//	accuracy@k              whether a relevant document is among the first k
//	precision@k, recall@k   their share that is relevant, and the share of the relevant in them
//	mrr@k                   1 divided by the rank of the first relevant document, 0 beyond k
//	ndcg@k                  the gain discounted by log(rank), divided by its maximum
//	map@k                   the sum of precisions at the relevant ones, divided by min(k, relevant)
//
// The zero value has the k of sentence-transformers. A query without relevant documents is left
// out.
type Retrieval struct {
	AccuracyAt        []int // nil: 1, 3, 5, 10
	PrecisionRecallAt []int // nil: 1, 3, 5, 10
	MRRAt             []int // nil: 10
	NDCGAt            []int // nil: 10
	MAPAt             []int // nil: 100

	found retrieved
}

// retrieved is the sums over the queries.
type retrieved struct {
	Queries int64
	Sums    map[string]float64
}

// resolved returns the metric with the defaults filled in.
func (r *Retrieval) resolved() Retrieval {
	or := func(list []int, otherwise ...int) []int {
		if list == nil {
			return otherwise
		}
		return list
	}
	return Retrieval{AccuracyAt: or(r.AccuracyAt, 1, 3, 5, 10), PrecisionRecallAt: or(r.PrecisionRecallAt, 1, 3, 5, 10),
		MRRAt: or(r.MRRAt, 10), NDCGAt: or(r.NDCGAt, 10), MAPAt: or(r.MAPAt, 100)}
}

// Name returns the name of the main number: ndcg for the largest k or, if NDCGAt is empty, the
// first of the other measures.
func (r *Retrieval) Name() string {
	s := r.resolved()
	for _, kind := range []struct {
		name string
		at   []int
	}{{"ndcg", s.NDCGAt}, {"mrr", s.MRRAt}, {"map", s.MAPAt}, {"accuracy", s.AccuracyAt},
		{"recall", s.PrecisionRecallAt}} {
		if len(kind.at) > 0 {
			return fmt.Sprintf("%s@%d", kind.name, slices.Max(kind.at))
		}
	}
	return "retrieval"
}

// MaxK returns the largest k. No documents beyond that are looked at.
func (r *Retrieval) MaxK() int {
	s, most := r.resolved(), 0
	for _, k := range slices.Concat(s.AccuracyAt, s.PrecisionRecallAt, s.MRRAt, s.NDCGAt, s.MAPAt) {
		most = max(most, k)
	}
	return most
}

// Add scores what was found for a query.
func (r *Retrieval) Add(ranking, relevant []string) {
	if len(relevant) == 0 {
		return
	}
	if r.found.Sums == nil {
		r.found.Sums = map[string]float64{}
	}
	r.found.Queries++
	s := r.resolved()
	hit := make([]bool, len(ranking))
	for i, name := range ranking {
		hit[i] = slices.Contains(relevant, name)
	}
	at := func(kind string, ks []int, score func(hits []bool, k int) float64) {
		for _, k := range ks {
			r.found.Sums[fmt.Sprintf("%s@%d", kind, k)] += score(hit[:min(k, len(hit))], k)
		}
	}
	all := float64(len(relevant))
	at("accuracy", s.AccuracyAt, func(hits []bool, _ int) float64 { return min(1, float64(count(hits))) })
	at("precision", s.PrecisionRecallAt, func(hits []bool, k int) float64 { return float64(count(hits)) / float64(k) })
	at("recall", s.PrecisionRecallAt, func(hits []bool, _ int) float64 { return float64(count(hits)) / all })
	at("mrr", s.MRRAt, func(hits []bool, _ int) float64 {
		if first := slices.Index(hits, true); first >= 0 {
			return 1 / float64(first+1)
		}
		return 0
	})
	at("ndcg", s.NDCGAt, func(hits []bool, k int) float64 {
		return gain(hits) / gain(slices.Repeat([]bool{true}, min(k, len(relevant))))
	})
	at("map", s.MAPAt, func(hits []bool, k int) (sum float64) {
		for i, found := range hits {
			if found {
				sum += float64(count(hits[:i+1])) / float64(i+1)
			}
		}
		return sum / min(float64(k), all)
	})
}

func count(hits []bool) (n int) {
	for _, found := range hits {
		if found {
			n++
		}
	}
	return n
}

// gain returns the discounted cumulative gain.
func gain(hits []bool) (sum float64) {
	for i, found := range hits {
		if found {
			sum += 1 / math.Log2(float64(i+2))
		}
	}
	return sum
}

// Result returns the means. Without any query it returns the main number as 0.
func (r *Retrieval) Result() map[string]float64 {
	if r.found.Queries == 0 {
		return map[string]float64{r.Name(): 0}
	}
	result := map[string]float64{}
	for name, sum := range r.found.Sums {
		result[name] = sum / float64(r.found.Queries)
	}
	return result
}

// Reset forgets all queries.
func (r *Retrieval) Reset() { r.found = retrieved{} }

// settings returns the settings that states must share to be merged.
func (r *Retrieval) settings() string {
	s := r.resolved()
	return fmt.Sprint("retrieval", s.AccuracyAt, s.PrecisionRecallAt, s.MRRAt, s.NDCGAt, s.MAPAt)
}

// State implements [Merger].
func (r *Retrieval) State() ([]byte, error) { return pack(r.settings(), r.found) }

// Merge implements [Merger].
func (r *Retrieval) Merge(state []byte) error {
	var o retrieved
	if err := unpack(state, r.settings(), &o); err != nil {
		return err
	}
	if o.Queries < 0 {
		return impossible(r.settings(), "there are less than no queries")
	}
	for name, sum := range o.Sums {
		if cmp.Less(sum, 0) || sum > float64(o.Queries)+1e-6 {
			return impossible(r.settings(), name+" is no mean of numbers between 0 and 1")
		}
	}
	r.found.Queries += o.Queries
	for name, sum := range o.Sums {
		if r.found.Sums == nil {
			r.found.Sums = map[string]float64{}
		}
		r.found.Sums[name] += sum
	}
	return nil
}
