package classify

import "math"

// deviation is the mean of some function of the difference between a number and what it should be.
type deviation struct {
	name string
	of   func(difference float64) float64

	sum float64
	n   int
}

func square(d float64) float64   { return d * d }
func absolute(d float64) float64 { return math.Abs(d) }

func (d *deviation) Name() string { return d.name }

func (d *deviation) Add(prediction, reference float64) {
	d.sum += d.of(prediction - reference)
	d.n++
}

// Result is 0 for no pairs.
func (d *deviation) Result() map[string]float64 {
	return map[string]float64{d.name: d.sum / float64(max(1, d.n))}
}

func (d *deviation) Reset() { d.sum, d.n = 0, 0 }
