package main

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// quantity is a size that the cost of some work may depend on.
type quantity struct {
	name  string // of the plot's file
	what  string // what is measured, for the table
	axis  string // unit of the sizes
	sizes []int

	// prepare sets up the work of one size and returns the function to time and the one that cleans
	// up.
	prepare func(size int) (work, cleanup func() error, err error)
}

// point is the cost at one size: medians over the rounds.
type point struct {
	size  int
	wall  float64 // ms
	cpu   float64 // ms of all threads
	bytes float64 // allocated on Go's heap
}

// measured is a quantity with its measurements, one for each size.
type measured struct {
	quantity
	points []point
}

// mostRounds limits the rounds of work that takes hardly any time.
const mostRounds = 200

// measure times the work of each size for about the budget, in at least three rounds after a
// warm-up round.
func (q quantity) measure(budget time.Duration) (measured, error) {
	m := measured{quantity: q}
	for _, size := range q.sizes {
		work, cleanup, err := q.prepare(size)
		if err != nil {
			return m, err
		}
		p, err := rounds(work, budget)
		if err := errors.Join(err, cleanup()); err != nil {
			return m, err
		}
		p.size = size
		m.points = append(m.points, p)
	}
	return m, nil
}

func rounds(work func() error, budget time.Duration) (point, error) {
	if err := work(); err != nil {
		return point{}, err
	}
	runtime.GC() // collect earlier garbage before timing
	var wall, cpu, bytes []float64
	for begin := time.Now(); len(wall) < 3 || time.Since(begin) < budget && len(wall) < mostRounds; {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start, used := time.Now(), cpuTime()
		if err := work(); err != nil {
			return point{}, err
		}
		wall = append(wall, ms(time.Since(start)))
		cpu = append(cpu, ms(cpuTime()-used))
		runtime.ReadMemStats(&after)
		bytes = append(bytes, float64(after.TotalAlloc-before.TotalAlloc))
	}
	return point{wall: median(wall), cpu: median(cpu), bytes: median(bytes)}, nil
}

// cpuTime returns the CPU time of all threads of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func median(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	return xs[len(xs)/2]
}

// exponent estimates how the time grows over the larger half of the sizes: 1 is linear, 2
// quadratic. It is the least-squares slope of the logarithms, or 0 for a single point.
func (m measured) exponent() float64 {
	upper := m.points[min(len(m.points)/2, max(len(m.points)-2, 0)):]
	var n, sx, sy, sxx, sxy float64
	for _, p := range upper {
		x, y := math.Log(float64(p.size)), math.Log(max(p.wall, 1e-6))
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	if d := n*sxx - sx*sx; d > 0 {
		return (n*sxy - sx*sy) / d
	}
	return 0
}
