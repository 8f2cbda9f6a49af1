package metrics

import "math"

// sum adds numbers and keeps what is lost by rounding (Neumaier, 1974), so that the result depends
// neither on the order nor on how it was merged from parts.
type sum struct {
	Total, Lost float64
}

func (s *sum) add(x float64) {
	t := s.Total + x
	if math.Abs(s.Total) >= math.Abs(x) {
		s.Lost += (s.Total - t) + x
	} else {
		s.Lost += (x - t) + s.Total
	}
	s.Total = t
}

func (s *sum) merge(o sum) {
	s.add(o.Total)
	s.add(o.Lost)
}

func (s *sum) value() float64 {
	if math.IsInf(s.Total, 0) || math.IsNaN(s.Total) {
		return s.Total // Lost is NaN then: infinity minus infinity
	}
	return s.Total + s.Lost
}

// moments are the means and the sums of squared deviations of pairs, in Welford's form. Means are
// stored relative to the first pair, so that no digits are lost if the numbers are large and close
// together.
type moments struct {
	N              int64
	FirstX, FirstY float64
	MeanX, MeanY   float64 // minus FirstX and FirstY
	XX, YY, XY     float64 // sums of products of deviations
}

func (m *moments) add(x, y float64) { m.merge(moments{N: 1, FirstX: x, FirstY: y}) }

// merge combines two sets by the formula of Chan, Golub and LeVeque (1979).
func (m *moments) merge(o moments) {
	if o.N == 0 {
		return
	}
	if m.N == 0 {
		*m = o
		return
	}
	n := m.N + o.N
	dx, dy := (o.FirstX-m.FirstX)+(o.MeanX-m.MeanX), (o.FirstY-m.FirstY)+(o.MeanY-m.MeanY)
	share := float64(o.N) / float64(n)
	weight := float64(m.N) * share
	m.XX += o.XX + dx*dx*weight
	m.YY += o.YY + dy*dy*weight
	m.XY += o.XY + dx*dy*weight
	m.MeanX += dx * share
	m.MeanY += dy * share
	m.N = n
}

// correlation returns Pearson's coefficient; NaN if one side does not vary.
func (m *moments) correlation() float64 {
	if m.N < 2 || m.XX == 0 || m.YY == 0 {
		return math.NaN()
	}
	r := m.XY / (math.Sqrt(m.XX) * math.Sqrt(m.YY))
	return max(-1, min(1, r)) // rounding must not lead outside of this range
}
