package data

import "math/bits"

// NumpyPermutation returns numpy.random.default_rng(seed).permutation(n), the order of
// Dataset.shuffle(seed=seed) in Hugging Face's datasets. It uses numpy's PCG64 with its
// SeedSequence, as in numpy 1.17 and later.
func NumpyPermutation(seed uint64, n int) []int {
	g := newPCG64(seed)
	indices := Sequential{}.Indices(0, n)
	for i := n - 1; i > 0; i-- {
		j := g.upTo(uint64(i))
		indices[i], indices[j] = indices[j], indices[i]
	}
	return indices
}

// pcg64 is numpy's default generator: a linear congruential generator of 128 bits with the output
// function XSL-RR.
type pcg64 struct {
	high, low       uint64 // the state
	incHigh, incLow uint64
	half            uint32 // the upper half of the last 64 bits, when only the lower has been used
	hasHalf         bool
}

// newPCG64 seeds as numpy.random.SeedSequence(seed).generate_state(4, uint64) does.
func newPCG64(seed uint64) *pcg64 {
	words := seedWords(seed)
	g := &pcg64{incHigh: words[2]<<1 | words[3]>>63, incLow: words[3]<<1 | 1}
	g.step()
	var carry uint64
	g.low, carry = bits.Add64(g.low, words[1], 0)
	g.high, _ = bits.Add64(g.high, words[0], carry)
	g.step()
	return g
}

// step advances the state: state*multiplier + increment, in 128 bits.
func (g *pcg64) step() {
	const multiplierHigh, multiplierLow = 0x2360ed051fc65da4, 0x4385df649fccf645
	high, low := bits.Mul64(g.low, multiplierLow)
	high += g.high*multiplierLow + g.low*multiplierHigh
	var carry uint64
	g.low, carry = bits.Add64(low, g.incLow, 0)
	g.high, _ = bits.Add64(high, g.incHigh, carry)
}

func (g *pcg64) uint64() uint64 {
	g.step()
	return bits.RotateLeft64(g.high^g.low, -int(g.high>>58))
}

// uint32 returns the lower half of 64 bits, and the upper half the next time.
func (g *pcg64) uint32() uint32 {
	if g.hasHalf {
		g.hasHalf = false
		return g.half
	}
	v := g.uint64()
	g.half, g.hasHalf = uint32(v>>32), true
	return uint32(v)
}

// upTo returns a number from 0 to most as numpy's random_interval does, which shuffle calls: it
// draws until the masked bits are in range.
func (g *pcg64) upTo(most uint64) uint64 {
	mask := uint64(1)<<bits.Len64(most) - 1
	for {
		v := uint64(0)
		if most < 1<<32 {
			v = uint64(g.uint32()) & mask
		} else {
			v = g.uint64() & mask
		}
		if v <= most {
			return v
		}
	}
}

// seedWords spreads a seed over four words, as numpy's SeedSequence does (O'Neill's seed_seq_fe).
func seedWords(seed uint64) [4]uint64 {
	const (
		initA, multA       uint32 = 0x43b0d7e5, 0x931e8875
		initB, multB       uint32 = 0x8b51f9dd, 0x58f38ded
		mixLeft, mixRight  uint32 = 0xca01f9dd, 0x4973f715
		poolSize, generate        = 4, 8
	)
	hash := initA
	scramble := func(v uint32) uint32 {
		v ^= hash
		hash *= multA
		v *= hash
		return v ^ v>>16
	}
	var pool [poolSize]uint32
	entropy := [poolSize]uint32{uint32(seed), uint32(seed >> 32)} // missing words are hashed as zeros
	for i := range pool {
		pool[i] = scramble(entropy[i])
	}
	for from := range pool {
		for to := range pool {
			if from != to {
				v := mixLeft*pool[to] - mixRight*scramble(pool[from])
				pool[to] = v ^ v>>16
			}
		}
	}
	hash = initB
	var words [poolSize]uint64
	for i := range generate {
		v := pool[i%poolSize] ^ hash
		hash *= multB
		v *= hash
		v ^= v >> 16
		words[i/2] |= uint64(v) << (32 * (i % 2))
	}
	return words
}
