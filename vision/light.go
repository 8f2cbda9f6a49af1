package vision

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// AdjustLight changes contrast and brightness in place: every sample becomes gain*(v-128)+128+bias
// after the tone curve 255*(v/255)^gamma, clamped to 0..255. Gain 1, bias 0 and gamma 1 change
// nothing; a gamma below one brightens the shadows. A gamma of zero or less is treated as one.
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

// Shade multiplies the image in place by light that changes along a line, as a shadow or a low
// sun does: from factor a on one side of the line through the point (x, y) to factor b on the
// other, across a soft edge of the given width in pixels. angle is the direction of the change in
// radians.
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

// AddNoise adds Gaussian noise of standard deviation sigma, in gray levels, to every sample in
// place. A sigma of zero or less changes nothing and draws nothing. One 64-bit draw serves four
// samples.
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
		// The quantile table turns 10 of 16 uniform bits into a normal deviate in units of 1/256.
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

// Standardize writes the image into dst with its mean subtracted and divided by its standard
// deviation: (v - mean) / (deviation + floor), channels first, with mean and deviation over all
// samples. Images taken in the dark and in the sun become alike, which makes a network that does
// not normalize in its first layers learn much faster. floor, in gray levels, keeps the noise of
// an empty image small; 4 is a good value. dst must have exactly the image's number of
// samples.
func Standardize(dst []float32, im *Image, floor float64) error {
	if len(dst) != len(im.Pix) || len(dst) == 0 || !(floor > 0) || math.IsInf(floor, 1) {
		return fmt.Errorf("vision: standardize a %v image into %d values with floor %v: want %d values, more than "+
			"none, and a floor above zero", im, len(dst), floor, len(im.Pix))
	}
	var sum, squares int64
	for _, v := range im.Pix {
		sum += int64(v)
		squares += int64(v) * int64(v)
	}
	n := float64(len(im.Pix))
	mean := float64(sum) / n
	deviation := math.Sqrt(max(0, float64(squares)/n-float64(mean*mean)))
	var table [256]float32
	for v := range table {
		table[v] = float32((float64(v) - mean) / (deviation + floor))
	}
	for c := range im.Channels {
		out := dst[c*im.Width*im.Height:][:im.Width*im.Height]
		for i := range out {
			out[i] = table[im.Pix[i*im.Channels+c]]
		}
	}
	return nil
}
