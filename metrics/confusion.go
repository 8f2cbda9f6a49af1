package metrics

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// pair is a prediction and its reference.
type pair struct {
	Prediction, Reference int
}

// ConfusionMatrix counts how often each label was predicted as each other label: confusion_matrix
// of scikit-learn. Use Matrix to get the counts. In a list of metrics it reports
// "confusion_matrix", the number of pairs, and a number for each cell that is not empty, such as
// "confusion_matrix/2/0" for samples of class 2 that were predicted as class 0.
type ConfusionMatrix struct {
	cells map[pair]int64
}

// Name returns "confusion_matrix".
func (m *ConfusionMatrix) Name() string { return "confusion_matrix" }

// Add counts one pair.
func (m *ConfusionMatrix) Add(prediction, reference int) {
	if m.cells == nil {
		m.cells = make(map[pair]int64)
	}
	m.cells[pair{prediction, reference}]++
}

// Matrix returns the labels that occur, in order, and the counts: counts[i][j] pairs have the
// reference labels[i] and the prediction labels[j].
func (m *ConfusionMatrix) Matrix() (labels []int, counts [][]int64) {
	seen := map[int]bool{}
	for p := range m.cells {
		seen[p.Prediction], seen[p.Reference] = true, true
	}
	labels = slices.Sorted(maps.Keys(seen))
	counts = make([][]int64, len(labels))
	for i, reference := range labels {
		counts[i] = make([]int64, len(labels))
		for j, prediction := range labels {
			counts[i][j] = m.cells[pair{prediction, reference}]
		}
	}
	return labels, counts
}

// Result returns the cells that are not empty.
func (m *ConfusionMatrix) Result() map[string]float64 {
	result := map[string]float64{m.Name(): 0}
	for p, n := range m.cells {
		result[m.Name()] += float64(n)
		result[fmt.Sprintf("%s/%d/%d", m.Name(), p.Reference, p.Prediction)] = float64(n)
	}
	return result
}

// Reset forgets all pairs.
func (m *ConfusionMatrix) Reset() { m.cells = nil }

// State implements [Merger].
func (m *ConfusionMatrix) State() ([]byte, error) { return pack(m.Name(), m.cells) }

// Merge implements [Merger].
func (m *ConfusionMatrix) Merge(state []byte) error {
	var o map[pair]int64
	if err := unpack(state, m.Name(), &o); err != nil {
		return err
	}
	m.cells = addCounts(m.cells, o)
	return nil
}

// Matthews is Matthews' correlation coefficient for any number of classes: matthews_corrcoef of
// scikit-learn. It is 1 for agreement, 0 for chance, and 0 if either side has only one class.
type Matthews struct {
	matrix ConfusionMatrix
}

// Name returns "matthews_correlation".
func (m *Matthews) Name() string { return "matthews_correlation" }

// Add counts one pair.
func (m *Matthews) Add(prediction, reference int) { m.matrix.Add(prediction, reference) }

// Result returns "matthews_correlation".
func (m *Matthews) Result() map[string]float64 {
	labels, counts := m.matrix.Matrix()
	var right, total float64
	var predicted, actual, predictedSquares, actualSquares, products float64
	for i := range labels {
		predicted, actual = 0, 0
		for j := range labels {
			actual += float64(counts[i][j])
			predicted += float64(counts[j][i])
		}
		right += float64(counts[i][i])
		total += actual
		predictedSquares += predicted * predicted
		actualSquares += actual * actual
		products += predicted * actual
	}
	covariance := right*total - products
	predictedVariance, actualVariance := total*total-predictedSquares, total*total-actualSquares
	value := 0.0
	if predictedVariance*actualVariance != 0 {
		value = covariance / math.Sqrt(predictedVariance*actualVariance)
	}
	return map[string]float64{m.Name(): value}
}

// Reset forgets all pairs.
func (m *Matthews) Reset() { m.matrix.Reset() }

// State implements [Merger].
func (m *Matthews) State() ([]byte, error) { return m.matrix.State() }

// Merge implements [Merger].
func (m *Matthews) Merge(state []byte) error { return m.matrix.Merge(state) }
