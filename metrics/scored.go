package metrics

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Scored is a metric of predictions that are a score for each class, such as logits or
// probabilities, rather than one class.
type Scored interface {
	Name() string
	// Add counts one prediction; label is the index of the right score.
	Add(scores []float64, label int)
	Result() map[string]float64
	Reset()
}

// TopKAccuracy is the share of predictions whose correct class is among the K highest scores:
// top_k_accuracy_score of scikit-learn. Of two classes with equal scores, the later one counts as
// higher, as there. A label without a score is wrong, and so is a prediction with a NaN score.
type TopKAccuracy struct {
	K    int // zero means 5
	seen hits
}

func (t *TopKAccuracy) k() int { return cmp.Or(t.K, 5) }

// Name returns "top_5_accuracy", with the value of K.
func (t *TopKAccuracy) Name() string { return fmt.Sprintf("top_%d_accuracy", t.k()) }

// Add counts one prediction.
func (t *TopKAccuracy) Add(scores []float64, label int) {
	if label < 0 || label >= len(scores) || slices.ContainsFunc(scores, math.IsNaN) {
		t.seen.add(false)
		return
	}
	above := 0
	for i, s := range scores {
		if s > scores[label] || s == scores[label] && i > label {
			above++
		}
	}
	t.seen.add(above < t.k())
}

// Result returns the accuracy, or 0 if there was nothing to count.
func (t *TopKAccuracy) Result() map[string]float64 {
	return map[string]float64{t.Name(): ratio(t.seen.Right, t.seen.Total)}
}

// Reset forgets all predictions.
func (t *TopKAccuracy) Reset() { t.seen = hits{} }

// State implements [Merger].
func (t *TopKAccuracy) State() ([]byte, error) { return pack(t.Name(), t.seen) }

// Merge implements [Merger].
func (t *TopKAccuracy) Merge(state []byte) error { return t.seen.mergeState(state, t.Name()) }

// ROCAUC is the area under the receiver operating characteristic: the probability that a sample of
// a class has a higher score for it than one that is not of the class, equal scores counting half.
// It is roc_auc_score of scikit-learn over the whole set, exactly, and therefore keeps all scores,
// 8 bytes each.
//
// With one score per sample, it is the score of class 1; with two, the second one is. With more,
// each class is scored against the rest, and the mean over classes is taken. It is NaN if a class
// has no samples, or if all samples are of that class.
type ROCAUC struct {
	Weighted bool // weight classes by their frequency; only with more than two classes

	samples scored
}

type scored struct {
	Scores []float64 // row by row
	Labels []int
	Width  int // number of scores in a row
}

// Name returns "roc_auc".
func (r *ROCAUC) Name() string { return "roc_auc" }

// Add keeps one prediction. It panics if the number of scores differs from that of the previous
// one.
func (r *ROCAUC) Add(scores []float64, label int) {
	if len(r.samples.Labels) == 0 {
		r.samples.Width = len(scores)
	}
	if len(scores) != r.samples.Width || len(scores) == 0 {
		panic(fmt.Sprintf("metrics: ROCAUC.Add with %d scores, after a prediction with %d; want at least one, and "+
			"always as many", len(scores), r.samples.Width))
	}
	r.samples.Scores = append(r.samples.Scores, scores...)
	r.samples.Labels = append(r.samples.Labels, label)
}

// Result returns "roc_auc".
func (r *ROCAUC) Result() map[string]float64 {
	s := r.samples
	if s.Width <= 2 {
		return map[string]float64{r.Name(): s.area(s.Width-1, 1)}
	}
	var m mean
	for class := range s.Width {
		weight := 1.0
		if r.Weighted {
			weight = 0
			for _, label := range s.Labels {
				if label == class {
					weight++
				}
			}
		}
		a := s.area(class, class)
		if math.IsNaN(a) {
			return map[string]float64{r.Name(): a}
		}
		m.add(a, weight)
	}
	return map[string]float64{r.Name(): m.value(math.NaN())}
}

// area returns the area under the ROC curve of one column of scores for a label, computed by ranks:
// the statistic of Mann and Whitney.
func (s scored) area(column, label int) float64 {
	values := make([]float64, len(s.Labels))
	for i := range values {
		values[i] = s.Scores[i*s.Width+column]
		if math.IsNaN(values[i]) {
			return math.NaN()
		}
	}
	var rankSum, positive float64
	for i, rank := range ranks(values) {
		if s.Labels[i] == label {
			rankSum += rank
			positive++
		}
	}
	negative := float64(len(values)) - positive
	if positive == 0 || negative == 0 {
		return math.NaN()
	}
	return (rankSum - positive*(positive+1)/2) / (positive * negative)
}

// Reset forgets all predictions.
func (r *ROCAUC) Reset() { r.samples = scored{} }

// State implements [Merger].
func (r *ROCAUC) State() ([]byte, error) { return pack(r.Name(), r.samples) }

// Merge implements [Merger].
func (r *ROCAUC) Merge(state []byte) error {
	var o scored
	if err := unpack(state, r.Name(), &o); err != nil {
		return err
	}
	switch n := len(o.Labels); {
	case n == 0 && len(o.Scores) == 0:
		return nil
	case o.Width < 1 || len(o.Scores)%o.Width != 0 || len(o.Scores)/o.Width != n:
		return impossible(r.Name(), fmt.Sprintf("%d scores in rows of %d for %d labels", len(o.Scores), o.Width, n))
	case len(r.samples.Labels) > 0 && r.samples.Width != o.Width:
		return impossible(r.Name(), fmt.Sprintf("rows of %d scores, want %d", o.Width, r.samples.Width))
	}
	r.samples.Width = o.Width
	r.samples.Scores = slices.Concat(r.samples.Scores, o.Scores)
	r.samples.Labels = slices.Concat(r.samples.Labels, o.Labels)
	return nil
}

// Perplexity is the exponential of the mean negative log-likelihood of all tokens. Batches are
// weighted by their number of tokens, so it does not depend on how the set is split into batches.
type Perplexity struct{ loss nll }

type nll struct {
	Sum    sum
	Tokens int64
}

// Name returns "perplexity".
func (p *Perplexity) Name() string { return "perplexity" }

// Add counts a batch: its mean loss, in nats, over the given number of tokens.
func (p *Perplexity) Add(loss float64, tokens int64) {
	if tokens == 0 {
		return // its mean is not a number
	}
	p.loss.Sum.add(loss * float64(tokens))
	p.loss.Tokens += tokens
}

// Result returns "perplexity", or 1 if there was nothing to count.
func (p *Perplexity) Result() map[string]float64 {
	value := 1.0
	if p.loss.Tokens > 0 {
		value = math.Exp(p.loss.Sum.value() / float64(p.loss.Tokens))
	}
	return map[string]float64{p.Name(): value}
}

// Reset forgets all batches.
func (p *Perplexity) Reset() { p.loss = nll{} }

// State implements [Merger].
func (p *Perplexity) State() ([]byte, error) { return pack(p.Name(), p.loss) }

// Merge implements [Merger].
func (p *Perplexity) Merge(state []byte) error {
	var o nll
	if err := unpack(state, p.Name(), &o); err != nil {
		return err
	}
	p.loss.Sum.merge(o.Sum)
	p.loss.Tokens += o.Tokens
	return nil
}
