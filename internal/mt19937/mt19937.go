// Package mt19937 is the random generator of PyTorch on the CPU and of Python's random module.
package mt19937

// Source is the Mersenne Twister (Matsumoto and Nishimura, 1998), used by both PyTorch's CPU
// generator and Python's random module. They differ in seeding and in how they convert its words to
// numbers.
type Source struct {
	state [624]uint32
	next  int // index of the next word in state; 624: generate new words first
}

// New seeds the generator with one word, as PyTorch does.
func New(seed uint32) *Source {
	g := &Source{next: 624}
	g.state[0] = seed
	for i := 1; i < len(g.state); i++ {
		before := g.state[i-1]
		g.state[i] = 1812433253*(before^before>>30) + uint32(i)
	}
	return g
}

// NewFromKey seeds the generator with several words: init_by_array, as used by Python's
// random.seed.
func NewFromKey(key []uint32) *Source {
	g := New(19650218)
	n := len(g.state)
	i, j := 1, 0
	for range max(n, len(key)) {
		before := g.state[i-1]
		g.state[i] = (g.state[i] ^ (before^before>>30)*1664525) + key[j] + uint32(j)
		if i++; i >= n {
			g.state[0] = g.state[n-1]
			i = 1
		}
		if j++; j >= len(key) {
			j = 0
		}
	}
	for range n - 1 {
		before := g.state[i-1]
		g.state[i] = (g.state[i] ^ (before^before>>30)*1566083941) - uint32(i)
		if i++; i >= n {
			g.state[0] = g.state[n-1]
			i = 1
		}
	}
	g.state[0] = 0x80000000
	return g
}

// FromState continues from a state that State returned.
func FromState(words [624]uint32, next int) *Source { return &Source{words, next} }

// State returns the state: the words and the index of the next one.
func (g *Source) State() (words [624]uint32, next int) { return g.state, g.next }

// Uint32 returns the next 32 random bits.
func (g *Source) Uint32() uint32 {
	if g.next == len(g.state) {
		g.twist()
	}
	x := g.state[g.next]
	g.next++
	x ^= x >> 11
	x ^= x << 7 & 0x9d2c5680
	x ^= x << 15 & 0xefc60000
	return x ^ x>>18
}

// Uint64 returns the next 64 random bits, combined as in PyTorch's random64: the first word is the
// upper half.
func (g *Source) Uint64() uint64 {
	upper := uint64(g.Uint32())
	return upper<<32 | uint64(g.Uint32())
}

// Float64 returns a number in [0, 1) with 53 bits, like at::uniform_real_distribution<double>.
func (g *Source) Float64() float64 { return float64(g.Uint64()&(1<<53-1)) * 0x1p-53 }

func (g *Source) twist() {
	const n, m = 624, 397
	for i := range n {
		y := g.state[i]&0x80000000 | g.state[(i+1)%n]&0x7fffffff
		x := g.state[(i+m)%n] ^ y>>1
		if y&1 != 0 {
			x ^= 0x9908b0df
		}
		g.state[i] = x
	}
	g.next = 0
}
