package vision

import "encoding/binary"

// If no weight is negative and no weighted sum exceeds 8 bits, eight samples are filtered at a
// time: a uint64 holds two samples with 24 zero bits between them, so that a single multiplication
// by a weight of 22 bits multiplies both. Four such words hold the eight samples of one word.

const lanes = 0x000000ff_000000ff // samples 0 and 4 of a word

// roundLanes is the rounding term of a weighted sum, in both lanes.
const roundLanes = 1<<(precision-1)<<32 | 1<<(precision-1)

// pack packs four pairs of sums into a word of 8 samples.
func pack(a, b, c, d uint64) uint64 {
	return a>>precision&lanes | b>>precision&lanes<<8 | c>>precision&lanes<<16 | d>>precision&lanes<<24
}

// verticalLanes is vertical for rows of at least 8 samples, a word at a time. The last word of a
// row may overlap the one before.
func (s *resizeScratch) verticalLanes(dst, src *Image, first int) {
	k, n := &s.v, dst.Width*dst.Channels
	for y := range dst.Height {
		weights, out := k.w[y*k.stride:][:k.count[y]], dst.Row(y)
		in := src.Pix[(int(k.start[y])-first)*n:][:len(weights)*n]
		for x := 0; x < n; x += 8 {
			x = min(x, n-8)
			a, b, c, d := uint64(roundLanes), uint64(roundLanes), uint64(roundLanes), uint64(roundLanes)
			at := x
			for _, w := range weights {
				v, f := binary.LittleEndian.Uint64(in[at:]), uint64(w)
				a += v & lanes * f
				b += v >> 8 & lanes * f
				c += v >> 16 & lanes * f
				d += v >> 24 & lanes * f
				at += n
			}
			binary.LittleEndian.PutUint64(out[x:], pack(a, b, c, d))
		}
	}
}

// horizontalLanes is horizontal for gray images, eight rows at a time: the eight samples of a
// column form a word. Both images must have at least eight columns.
func (s *resizeScratch) horizontalLanes(dst, src *Image, first, last int) {
	k := &s.h
	s.columns, s.filtered = grow(s.columns, src.Width), grow(s.filtered, dst.Width)
	var rows [8][]uint8
	var block [8]uint64
	for y := first; y < last; y += 8 {
		for i := range rows {
			rows[i] = src.Row(min(y+i, last-1))
		}
		for x := 0; x < src.Width; x += 8 {
			x = min(x, src.Width-8)
			for i, row := range rows {
				block[i] = binary.LittleEndian.Uint64(row[x:])
			}
			transpose(&block)
			copy(s.columns[x:], block[:])
		}
		for x := range s.filtered {
			weights := k.w[x*k.stride:][:k.count[x]]
			in := s.columns[k.start[x]:][:len(weights)]
			a, b, c, d := uint64(roundLanes), uint64(roundLanes), uint64(roundLanes), uint64(roundLanes)
			for i, v := range in {
				f := uint64(weights[i])
				a += v & lanes * f
				b += v >> 8 & lanes * f
				c += v >> 16 & lanes * f
				d += v >> 24 & lanes * f
			}
			s.filtered[x] = pack(a, b, c, d)
		}
		for x := 0; x < dst.Width; x += 8 {
			x = min(x, dst.Width-8)
			copy(block[:], s.filtered[x:])
			transpose(&block)
			for i, row := range block[:min(8, last-y)] {
				binary.LittleEndian.PutUint64(dst.Row(y - first + i)[x:], row)
			}
		}
	}
}

// transpose transposes a block of 8 by 8 samples.
func transpose(w *[8]uint64) {
	for i := range 4 {
		w[i], w[i+4] = swap(w[i], w[i+4], 32, 0x00000000_ffffffff)
	}
	for _, i := range [4]int{0, 1, 4, 5} {
		w[i], w[i+2] = swap(w[i], w[i+2], 16, 0x0000ffff_0000ffff)
	}
	for i := 0; i < 8; i += 2 {
		w[i], w[i+1] = swap(w[i], w[i+1], 8, 0x00ff00ff_00ff00ff)
	}
}

// swap exchanges the high parts of a with the low parts of b.
func swap(a, b uint64, shift uint, low uint64) (x, y uint64) {
	t := (a>>shift ^ b) & low
	return a ^ t<<shift, b ^ t
}
