package crossencoder

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// level is the pairs or documents with one score.
type level struct {
	score      float32
	all, right int // how many there are, and how many of them are positive
}

// levels returns the levels of scores, the best first.
func levels(scores []float32, positive func(i int) bool) (list []level) {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	for _, i := range order {
		if len(list) == 0 || list[len(list)-1].score != scores[i] {
			list = append(list, level{score: scores[i]})
		}
		last := &list[len(list)-1]
		if last.all++; positive(i) {
			last.right++
		}
	}
	return list
}

// below returns a threshold between a level and the next one; the last level's is its score.
func below(list []level, i int) float64 {
	if i == len(list)-1 {
		return float64(list[i].score)
	}
	middle := (list[i].score + list[i+1].score) / 2
	if middle == list[i+1].score { // rounded
		middle = list[i].score
	}
	return float64(middle)
}

// averagePrecision is average_precision_score of scikit-learn; 0 without positives.
func averagePrecision(list []level) (sum float64) {
	all, right := 0, 0
	for _, l := range list {
		all, right = all+l.all, right+l.right
		sum += float64(l.right) * float64(right) / float64(all)
	}
	if right == 0 {
		return 0
	}
	return sum / float64(right)
}

// binaryScores measures scores against classes of 0 and 1, with the thresholds that are best for
// accuracy and for F1: find_best_acc_and_threshold and find_best_f1_and_threshold.
func binaryScores(scores []float32, labels []int) map[string]float64 {
	list := levels(scores, func(i int) bool { return labels[i] == 1 })
	positives := 0
	for _, l := range list {
		positives += l.right
	}
	n := len(scores)
	r := map[string]float64{"accuracy": float64(n-positives) / float64(n), "f1": 0, "f1_threshold": 0, "precision": 0,
		"recall": 0, "average_precision": averagePrecision(list),
		"accuracy_threshold": float64(math.Nextafter32(list[0].score, float32(math.Inf(1))))} // above all scores
	all, right := 0, 0
	for i, l := range list {
		all, right = all+l.all, right+l.right
		if accuracy := float64(right+n-positives-(all-right)) / float64(n); accuracy > r["accuracy"] {
			r["accuracy"], r["accuracy_threshold"] = accuracy, below(list, i)
		}
		if right == 0 {
			continue
		}
		precision, recall := float64(right)/float64(all), float64(right)/float64(positives)
		if f1 := 2 * precision * recall / (precision + recall); f1 > r["f1"] {
			r["f1"], r["precision"], r["recall"], r["f1_threshold"] = f1, precision, recall, below(list, i)
		}
	}
	return r
}

// ranking is the numbers of one ranking, or sums of them.
type ranking struct{ mrr, ndcg, ap float64 }

func (r *ranking) add(o ranking) {
	r.mrr, r.ndcg, r.ap = r.mrr+o.mrr, r.ndcg+o.ndcg, r.ap+o.ap
}

// report stores the means of n rankings.
func (r ranking) report(all map[string]float64, prefix string, k, n int) {
	all[prefix+"map"] = r.ap / float64(n)
	all[fmt.Sprintf("%smrr@%d", prefix, k)] = r.mrr / float64(n)
	all[fmt.Sprintf("%sndcg@%d", prefix, k)] = r.ndcg / float64(n)
}

func count(list []bool) (n int) {
	for _, on := range list {
		if on {
			n++
		}
	}
	return n
}

// rankingOf measures the ranking of documents by their scores. Without relevant documents all
// numbers are 0.
func rankingOf(scores []float32, relevant []bool, k int) (r ranking) {
	if count(relevant) == 0 {
		return r
	}
	list := levels(scores, func(i int) bool { return relevant[i] })
	r.ap = averagePrecision(list)

	order := make([]int, len(scores))
	for i := range order {
		order[i] = len(scores) - 1 - i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	if first := slices.IndexFunc(order, func(i int) bool { return relevant[i] }); first < k {
		r.mrr = 1 / float64(first+1)
	}

	discount := func(rank int) float64 { return 1 / math.Log2(float64(rank+2)) }
	rank, best := 0, 0.0
	for _, l := range list {
		discounts := 0.0
		for range l.all {
			if rank < k {
				discounts += discount(rank)
			}
			rank++
		}
		r.ndcg += float64(l.right) / float64(l.all) * discounts
	}
	for rank := range min(k, count(relevant)) {
		best += discount(rank)
	}
	r.ndcg /= best
	return r
}
