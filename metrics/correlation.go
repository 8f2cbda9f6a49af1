package metrics

import (
	"cmp"
	"math"
	"slices"
)

// Pearson is the correlation coefficient of two series of numbers: pearsonr of SciPy. It is NaN if
// one of them does not vary.
type Pearson struct{ moments moments }

// Name returns "pearson".
func (p *Pearson) Name() string { return "pearson" }

// Add counts one pair.
func (p *Pearson) Add(prediction, reference float64) { p.moments.add(prediction, reference) }

// Result returns "pearson".
func (p *Pearson) Result() map[string]float64 {
	return map[string]float64{p.Name(): p.moments.correlation()}
}

// Reset forgets all pairs.
func (p *Pearson) Reset() { p.moments = moments{} }

// State implements [Merger].
func (p *Pearson) State() ([]byte, error) { return pack(p.Name(), p.moments) }

// Merge implements [Merger].
func (p *Pearson) Merge(state []byte) error {
	var o moments
	if err := unpack(state, p.Name(), &o); err != nil {
		return err
	}
	p.moments.merge(o)
	return nil
}

// Spearman is the rank correlation: spearmanr of SciPy. Equal numbers share the mean of their
// ranks. It keeps all pairs, 16 bytes each. If one is NaN, the result is NaN.
type Spearman struct{ pairs series }

type series struct{ X, Y []float64 }

// Name returns "spearman".
func (s *Spearman) Name() string { return "spearman" }

// Add keeps one pair.
func (s *Spearman) Add(prediction, reference float64) {
	s.pairs.X, s.pairs.Y = append(s.pairs.X, prediction), append(s.pairs.Y, reference)
}

// Result returns "spearman".
func (s *Spearman) Result() map[string]float64 {
	if slices.ContainsFunc(s.pairs.X, math.IsNaN) || slices.ContainsFunc(s.pairs.Y, math.IsNaN) {
		return map[string]float64{s.Name(): math.NaN()}
	}
	x, y := ranks(s.pairs.X), ranks(s.pairs.Y)
	var m moments
	for i := range x {
		m.add(x[i], y[i])
	}
	return map[string]float64{s.Name(): m.correlation()}
}

// Reset forgets all pairs.
func (s *Spearman) Reset() { s.pairs = series{} }

// State implements [Merger].
func (s *Spearman) State() ([]byte, error) { return pack(s.Name(), s.pairs) }

// Merge implements [Merger].
func (s *Spearman) Merge(state []byte) error {
	var o series
	if err := unpack(state, s.Name(), &o); err != nil {
		return err
	}
	if len(o.X) != len(o.Y) {
		return impossible(s.Name(), "one side has more numbers than the other")
	}
	s.pairs.X, s.pairs.Y = append(s.pairs.X, o.X...), append(s.pairs.Y, o.Y...)
	return nil
}

// ranks ranks values from 1 in ascending order. Equal values get the mean of their ranks.
func ranks(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	out := make([]float64, len(values))
	for begin := 0; begin < len(order); {
		end := begin + 1
		for end < len(order) && values[order[end]] == values[order[begin]] {
			end++
		}
		for _, i := range order[begin:end] {
			out[i] = float64(begin+1+end) / 2
		}
		begin = end
	}
	return out
}
