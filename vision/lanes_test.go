package vision

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Eight samples at a time give the same result as one at a time.
func TestResizeByLanes(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 600 {
		channels := 1 + 2*random.IntN(2)
		src := NewImage(8+random.IntN(60), 1+random.IntN(60), channels)
		dst := NewImage(8+random.IntN(60), 1+random.IntN(60), channels)
		for i := range src.Pix {
			src.Pix[i] = uint8(random.Uint32())
		}
		if random.IntN(8) == 0 {
			src.Fill(255)
		}
		f := []Filter{Bilinear, Box, Hamming}[random.IntN(3)]
		require.NoError(t, Resize(dst, src, f))

		s, between := new(resizeScratch), src
		pass := func(k *weights, in, out int, to *Image, filter func(to, from *Image)) {
			k.compute(in, out, f)
			require.True(t, k.plain)
			k.plain = false
			filter(to, between)
			between = to
		}
		across := func() {
			if dst.Width != src.Width {
				pass(&s.h, src.Width, dst.Width, NewImage(dst.Width, between.Height, channels), func(to, from *Image) {
					s.horizontal(to, from, f, 0, from.Height)
				})
			}
		}
		down := func() {
			if dst.Height != src.Height {
				pass(&s.v, src.Height, dst.Height, NewImage(between.Width, dst.Height, channels), func(to, from *Image) {
					s.vertical(to, from, 0)
				})
			}
		}
		if verticalFirst(dst, src) {
			down()
			across()
		} else {
			across()
			down()
		}
		require.True(t, bytes.Equal(between.Pix, dst.Pix), "%v to %v, %v", src, dst, f)
	}
}
