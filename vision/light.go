package vision

import (
	"math"
	"math/rand/v2"
)

// AdjustLight changes contrast and brightness in place: every sample becomes gain*(v-128)+128+bias after the
// tone curve 255*(v/255)^gamma, cut to 0..255. Gain 1, bias 0 and gamma 1 change nothing; gamma below one
// brightens the shadows. A gamma of zero or less is taken as one.
func AdjustLight(im *Image, gain, bias, gamma float64) {
	if !(gamma > 0) {
		gamma = 1
	}
	var table [256]uint8
	for i := range table {
		v := float64(i)
		if gamma != 1 {
			v = 255 * math.Pow(v/255, gamma)
		}
		table[i] = toByte(gain*(v-128) + 128 + bias)
	}
	for i, v := range im.Pix {
		im.Pix[i] = table[v]
	}
}

// toByte rounds to 0..255; NaN becomes 0.
func toByte(v float64) uint8 {
	if !(v > 0) {
		return 0
	}
	if v >= 255 {
		return 255
	}
	return uint8(v + 0.5)
}

// Shade multiplies the picture in place by light that changes along a line, as a shadow or a low sun does: from
// factor a on one side of the line through the point (x, y) to factor b on the other, across a soft edge of the
// given width in pixels. angle is the direction of the change in radians.
func Shade(im *Image, x, y, angle, edge, a, b float64) {
	const steps = 64 // levels of light across the edge
	var factor [steps + 1]int
	for i := range factor {
		t := float64(i) / steps
		t = t * t * (3 - 2*t)
		factor[i] = int(max(0, min(a+(b-a)*t, 16)) * 65536)
	}
	edge = max(edge, 1e-3)
	cos, sin := math.Cos(angle)/edge, math.Sin(angle)/edge
	c := im.Channels
	for row := range im.Height {
		at := (float64(row)+0.5-y)*sin + (0.5-x)*cos + 0.5
		pix := im.Row(row)
		for i := 0; i < len(pix); i += c {
			f := factor[int(max(0, min(at, 1))*steps)]
			for k := i; k < i+c; k++ {
				pix[k] = uint8(min((int(pix[k])*f+32768)>>16, 255))
			}
			at += cos
		}
	}
}

// AddNoise adds Gaussian noise of standard deviation sigma, in grey levels, to every sample in place. A sigma
// of zero or less changes nothing and draws nothing. One 64-bit draw serves four samples.
func AddNoise(im *Image, sigma float64, rng *rand.Rand) {
	if !(sigma > 0) {
		return
	}
	scale := int(min(sigma, 255) * 256)
	pix := im.Pix
	var bits uint64
	for i := range pix {
		if i%4 == 0 {
			bits = rng.Uint64()
		}
		// The quantile table turns 10 of 16 uniform bits into a normal deviate of 1/256ths.
		n := normal[bits&1023] * scale
		bits >>= 16
		v := int(pix[i]) + (n+1<<15)>>16
		pix[i] = uint8(min(max(v, 0), 255))
	}
}

// normal holds the quantiles of the standard normal distribution at (i+0.5)/1024, times 256.
var normal = func() (q [1024]int) {
	for i := range q {
		q[i] = int(math.Round(256 * math.Sqrt2 * math.Erfinv(2*(float64(i)+0.5)/1024-1)))
	}
	return q
}()
