package specaugment

import (
	"encoding/binary"
	"math/bits"

	"github.com/gotrainer/gotrainer/internal/mt19937"
	"github.com/gotrainer/gotrainer/torch"
)

// Numpy draws as numpy.random.RandomState does. Its state is kept in a torch.Generator, which is
// the same Mersenne Twister and is seeded alike, so that checkpoints hold it.
type Numpy struct {
	*mt19937.Source
	generator *torch.Generator
	state     []byte
}

// The fields of the state of torch's generator on the CPU, which is mostly in integers of 64 bits.
const (
	atLeft  = 8  // words left of the current block, and one more; 32 bits
	atNext  = 16 // the next word
	atWords = 24
	words   = 624
)

// NumpyOf continues from the state of a generator.
func NumpyOf(g *torch.Generator) *Numpy {
	state := g.State()
	var block [words]uint32
	for i := range block {
		block[i] = binary.LittleEndian.Uint32(state[atWords+8*i:])
	}
	next := words
	if binary.LittleEndian.Uint32(state[atLeft:]) > 1 {
		next = int(binary.LittleEndian.Uint64(state[atNext:]))
	}
	return &Numpy{mt19937.FromState(block, next), g, state}
}

// Keep gives the generator the state that the drawing has reached.
func (n *Numpy) Keep() {
	block, next := n.State()
	for i, w := range block {
		binary.LittleEndian.PutUint64(n.state[atWords+8*i:], uint64(w))
	}
	binary.LittleEndian.PutUint32(n.state[atLeft:], uint32(words+1-next))
	binary.LittleEndian.PutUint64(n.state[atNext:], uint64(next))
	n.generator.SetState(n.state)
}

// float64 is numpy.random.rand().
func (n *Numpy) float64() float64 {
	high, low := n.Uint32()>>5, n.Uint32()>>6
	return (float64(high)*(1<<26) + float64(low)) / (1 << 53)
}

// permutation is numpy.random.permutation(size).
func (n *Numpy) permutation(size int64) []int64 {
	list := make([]int64, size)
	for i := range list {
		list[i] = int64(i)
	}
	for i := len(list) - 1; i > 0; i-- {
		j := n.upTo(uint32(i))
		list[i], list[j] = list[j], list[i]
	}
	return list
}

// upTo returns a number from 0 to most.
func (n *Numpy) upTo(most uint32) uint32 {
	mask := uint32(1)<<bits.Len32(most) - 1
	for {
		if v := n.Uint32() & mask; v <= most {
			return v
		}
	}
}
