package metrics

import (
	"fmt"

	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// BatchMean reports the mean of a metric's results on single batches, with the same weight for
// each batch. Trainers that compute a metric per batch do this, Hezar (with four decimals) among
// them. It is not the metric of the whole set; use it to compare with such a trainer.
type BatchMean[P any] struct {
	Of       Metric[P] // required
	Decimals int       // each batch's numbers are rounded to this, as by Python's round; zero means no rounding

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
		return m.Of.Result() // the metric's result without any pairs
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

// round rounds with [Round], since multiplying by a power of ten would round differently.
func (m *BatchMean[P]) round(x float64) float64 {
	if m.Decimals == 0 {
		return x
	}
	return Round(x, m.Decimals)
}

// Round rounds to the given number of decimals as Python's round does: to the nearest, by the
// exact value of the number.
func Round(x float64, decimals int) float64 { return pyfloat.Round(x, max(0, decimals)) }

// State implements [Merger]. It ends the current batch.
func (m *BatchMean[P]) State() ([]byte, error) {
	m.EndBatch()
	return pack(m.kind(), batchSums{m.sums, int64(m.batches)})
}

// Merge implements [Merger]. It ends the current batch.
func (m *BatchMean[P]) Merge(state []byte) error {
	var o batchSums
	if err := unpack(state, m.kind(), &o); err != nil {
		return err
	}
	m.EndBatch()
	if m.sums == nil {
		m.sums = make(map[string]float64, len(o.Sums))
	}
	for name, sum := range o.Sums {
		m.sums[name] += sum
	}
	m.batches += int(o.Batches)
	return nil
}

type batchSums struct {
	Sums    map[string]float64
	Batches int64
}

func (m *BatchMean[P]) kind() string {
	return fmt.Sprintf("mean of %s to %d decimals", m.Name(), m.Decimals)
}
