// Package metrics computes the numbers of an evaluation from predictions and references: accuracy, F1, and the error
// rates of recognized text. It knows no tensors.
//
// A metric takes pairs one at a time and keeps counts only, so a set of any size costs nothing, and its result is that of
// the whole set, not an average of batches. The zero value of each is ready:
//
//	var cer metrics.CER
//	for i := range predictions {
//		cer.Add(predictions[i], references[i])
//	}
//	fmt.Println(cer.Result()["cer"])
//
// The results are those of scikit-learn and jiwer, with which they are compared in the tests. [BatchMean] makes of any metric the
// average of batches that some trainers report.
package metrics

// Metric gathers pairs of a prediction and what it should have been. It is used by one goroutine at a time.
type Metric[P any] interface {
	// Name is the metric's name, and the key of its main number in the result.
	Name() string
	Add(prediction, reference P)
	// Result returns the numbers of the pairs since the last Reset, by name.
	Result() map[string]float64
	Reset()
}

var (
	_ Metric[int]    = (*Accuracy[int])(nil)
	_ Metric[int]    = (*F1)(nil)
	_ Metric[string] = (*ExactMatch)(nil)
	_ Metric[string] = (*CER)(nil)
	_ Metric[string] = (*WER)(nil)
	_ Metric[string] = (*BatchMean[string])(nil)
)

// ratio returns a/b, and 0 for 0/0, as scikit-learn does with zero_division=0.
func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
