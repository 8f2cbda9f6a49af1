package metrics

import "strconv"

// BatchMean reports the mean of a metric's results of single batches, each batch as heavy as any other, as trainers do
// that compute a metric per batch: Hezar (with four decimals) among them. It is not the metric of the set: use it to compare with
// such a trainer.
type BatchMean[P any] struct {
	Of       Metric[P] // required
	Decimals int       // to which each batch's numbers are rounded, as by Python's round; zero means not at all

	sums    map[string]float64
	batches int
	pending bool
}

// Name returns the name of the metric.
func (m *BatchMean[P]) Name() string { return m.Of.Name() }

// Add counts one pair in the current batch.
func (m *BatchMean[P]) Add(prediction, reference P) {
	m.pending = true
	m.Of.Add(prediction, reference)
}

// EndBatch ends the current batch. Without pairs since the last call it does nothing.
func (m *BatchMean[P]) EndBatch() {
	if !m.pending {
		return
	}
	if m.sums == nil {
		m.sums = make(map[string]float64)
	}
	for name, value := range m.Of.Result() {
		m.sums[name] += m.round(value)
	}
	m.batches++
	m.pending = false
	m.Of.Reset()
}

// Result ends the current batch and returns the means.
func (m *BatchMean[P]) Result() map[string]float64 {
	m.EndBatch()
	if m.batches == 0 {
		return m.Of.Result() // what the metric says of nothing
	}
	means := make(map[string]float64, len(m.sums))
	for name, sum := range m.sums {
		means[name] = sum / float64(m.batches)
	}
	return means
}

// Reset forgets all batches.
func (m *BatchMean[P]) Reset() {
	m.Of.Reset()
	m.sums, m.batches, m.pending = nil, 0, false
}

// round rounds to the nearest decimal of the exact value, which multiplying by a power of ten would miss.
func (m *BatchMean[P]) round(x float64) float64 {
	if m.Decimals == 0 {
		return x
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'f', m.Decimals, 64), 64) // reads all that FormatFloat writes
	return rounded
}
