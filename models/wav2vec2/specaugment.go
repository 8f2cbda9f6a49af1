package wav2vec2

import (
	"encoding/binary"
	"math/bits"

	"github.com/gotrainer/gotrainer/internal/mt19937"
	"github.com/gotrainer/gotrainer/torch"
)

// defaultSeed is that of masks until a run seeds their generator.
const defaultSeed = 42

// specAugment masks spans of frames and of features of hidden states, [B, frames, hidden], each row
// within its own number of frames; nil: all: SpecAugment (Park et al., 2019). Masks are those of
// numpy's global generator in transformers.
func (m *Model) specAugment(x torch.Tensor, counts []int64) torch.Tensor {
	c, shape := m.config, x.Shape()
	if *c.MaskTimeProb > 0 && c.MaskTimeLength > shape[1] {
		panic(torch.Errorf("wav2vec2.Model.Forward", torch.ErrInvalid, "the longest sound of the batch has %d frames; want "+
			"at least mask_time_length, %d, for SpecAugment in training (apply_spec_augment)", shape[1], c.MaskTimeLength))
	}
	return torch.Return(func() torch.Tensor {
		numbers := numpyOf(m.masks)
		defer numbers.keep()
		if *c.MaskTimeProb > 0 {
			mask := spans{*c.MaskTimeProb, c.MaskTimeLength, *c.MaskTimeMinMasks}.draw(numbers, shape[0], shape[1], counts)
			rows := torch.From(mask, shape[0], shape[1]).ToDevice(x.Device())
			x = x.IndexPut([]torch.Tensor{rows}, m.MaskedSpecEmbed.ToDType(x.DType()), false)
		}
		if *c.MaskFeatureProb > 0 {
			mask := spans{*c.MaskFeatureProb, c.MaskFeatureLength, *c.MaskFeatureMinMasks}.draw(numbers, shape[0], shape[2], nil)
			x = x.MaskedFill(torch.From(mask, shape[0], 1, shape[2]).ToDevice(x.Device()), 0)
		}
		return x
	})
}

// spans says how masks are drawn: of which share of an axis, how long, and how many at least.
type spans struct {
	share         float64
	length, least int64
}

// draw returns masks for rows of the given width, [rows, width], row by row: _compute_mask_indices
// of transformers. counts are how much of each row may be masked; nil: all.
func (s spans) draw(numbers *numpy, rows, width int64, counts []int64) []bool {
	mask := make([]bool, rows*width)
	rounding := numbers.float64()
	number := func(n int64) int64 {
		masks := max(int64(s.share*float64(n)/float64(s.length)+rounding), s.least)
		if masks*s.length > width {
			masks = width / s.length
		}
		return max(min(masks, n-(s.length-1)), 0)
	}
	most := number(width)
	if most == 0 {
		return mask
	}
	for row := range rows {
		n := width
		if counts != nil {
			n = counts[row]
		}
		starts := numbers.permutation(max(n-(s.length-1), 0))[:number(n)]
		if int64(len(starts)) < most && len(starts) == 0 {
			starts = []int64{width - 1} // transformers then masks the last place, which is padding
		}
		for _, start := range starts {
			for i := start; i < min(start+s.length, width); i++ {
				mask[row*width+i] = true
			}
		}
	}
	return mask
}

// numpy draws as numpy.random.RandomState does. Its state is kept in a torch.Generator, which is
// the same Mersenne Twister and is seeded alike, so that checkpoints hold it.
type numpy struct {
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

// numpyOf continues from the state of a generator.
func numpyOf(g *torch.Generator) *numpy {
	state := g.State()
	var block [words]uint32
	for i := range block {
		block[i] = binary.LittleEndian.Uint32(state[atWords+8*i:])
	}
	next := words
	if binary.LittleEndian.Uint32(state[atLeft:]) > 1 {
		next = int(binary.LittleEndian.Uint64(state[atNext:]))
	}
	return &numpy{mt19937.FromState(block, next), g, state}
}

// keep gives the generator the state that the drawing has reached.
func (n *numpy) keep() {
	block, next := n.State()
	for i, w := range block {
		binary.LittleEndian.PutUint64(n.state[atWords+8*i:], uint64(w))
	}
	binary.LittleEndian.PutUint32(n.state[atLeft:], uint32(words+1-next))
	binary.LittleEndian.PutUint64(n.state[atNext:], uint64(next))
	n.generator.SetState(n.state)
}

// float64 is numpy.random.rand().
func (n *numpy) float64() float64 {
	high, low := n.Uint32()>>5, n.Uint32()>>6
	return (float64(high)*(1<<26) + float64(low)) / (1 << 53)
}

// permutation is numpy.random.permutation(size).
func (n *numpy) permutation(size int64) []int64 {
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
func (n *numpy) upTo(most uint32) uint32 {
	mask := uint32(1)<<bits.Len32(most) - 1
	for {
		if v := n.Uint32() & mask; v <= most {
			return v
		}
	}
}
