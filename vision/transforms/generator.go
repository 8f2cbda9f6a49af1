package transforms

import (
	"errors"

	"github.com/gotrainer/gotrainer/internal/mt19937"
)

// Generator returns 32 random bits at a time. A *rand.Rand of math/rand/v2 is one.
type Generator interface{ Uint32() uint32 }

// NewGenerator returns PyTorch's CPU generator with this seed: torch.manual_seed. It must not be
// used by two goroutines at a time.
func NewGenerator(seed uint64) Generator { return mt19937.New(uint32(seed)) }

var errNoGenerator = errors.New("it draws random numbers, and the generator is nil; want NewGenerator(seed) or a " +
	"*rand.Rand")

// uniform is torch.empty(1).uniform_(low, high), whose kernel multiplies and adds with a single
// rounding.
func uniform(g Generator, low, high float32) float32 {
	u := float64(g.Uint32()&(1<<24-1)) * 0x1p-24
	return float32(float64(u*float64(high-low)) + float64(low))
}

// below is torch.randint(0, n, (1,)).
func below(g Generator, n int) int { return int(g.Uint32() % uint32(n)) }

// permutation4 is torch.randperm(4).
func permutation4(g Generator) [4]int {
	p := [4]int{0, 1, 2, 3}
	for i := range 3 {
		z := i + below(g, 4-i)
		p[i], p[z] = p[z], p[i]
	}
	return p
}
