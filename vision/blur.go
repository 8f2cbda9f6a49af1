package vision

import (
	"math"
	"sync"
)

// planePool holds scratch memory for the filters that need a second image.
var planePool = sync.Pool{New: func() any { return new(plane) }}

type plane struct{ pix []uint8 }

func (p *plane) sized(n int) []uint8 {
	if cap(p.pix) < n {
		p.pix = make([]uint8, n)
	}
	return p.pix[:n]
}

// GaussianBlur blurs the image in place with a Gaussian of standard deviation sigma, in pixels,
// truncated at three sigma. Edge pixels are repeated outwards. A sigma of zero or less, or NaN,
// changes nothing.
func GaussianBlur(im *Image, sigma float64) {
	if !(sigma > 0.05) || len(im.Pix) == 0 { // below this, the weights of neighbors round to zero
		return
	}
	radius := int(math.Ceil(min(3*sigma, float64(max(im.Width, im.Height)))))
	kernel := make([]int, 2*radius+1) // sums to 1<<16
	sum := 0.0
	for i := range kernel {
		sum += math.Exp(-sq(float64(i-radius)) / (2 * sigma * sigma))
	}
	rest := 1 << 16
	for i := range kernel {
		kernel[i] = int(math.Exp(-sq(float64(i-radius))/(2*sigma*sigma)) / sum * (1 << 16))
		rest -= kernel[i]
	}
	kernel[radius] += rest
	p := planePool.Get().(*plane)
	defer planePool.Put(p)
	n := im.Width * im.Channels
	other := &Image{p.sized(len(im.Pix)), im.Width, im.Height, im.Channels}
	for y := range im.Height {
		convolve(other.Row(y), im.Row(y), kernel, im.Channels)
	}
	acc := make([]int, n)
	for y := range im.Height {
		for i := range acc {
			acc[i] = 1 << 15
		}
		for i, f := range kernel {
			row := other.Row(min(max(y+i-radius, 0), im.Height-1))[:len(acc)]
			for x, v := range row {
				acc[x] += int(v) * f
			}
		}
		out := im.Row(y)[:len(acc)]
		for x, v := range acc {
			out[x] = uint8(v >> 16)
		}
	}
}

func sq(x float64) float64 { return x * x }

// convolve filters one row of interleaved samples, repeating its ends.
func convolve(out, in []uint8, kernel []int, channels int) {
	reach := len(kernel) / 2 * channels
	inner := max(reach, len(in)-reach) // between reach and inner, all taps are inside the row
	edge := func(x int) {
		sum := 1 << 15
		for i, f := range kernel {
			j := x - reach + i*channels
			if j < 0 {
				j = x % channels
			} else if j >= len(in) {
				j = len(in) - channels + x%channels
			}
			sum += int(in[j]) * f
		}
		out[x] = uint8(sum >> 16)
	}
	for x := range min(reach, len(in)) {
		edge(x)
	}
	if channels == 1 {
		for x := reach; x < inner && x < len(in); x++ {
			taps := in[x-reach:][:len(kernel)]
			sum := 1 << 15
			for i, f := range kernel {
				sum += int(taps[i]) * f
			}
			out[x] = uint8(sum >> 16)
		}
	} else {
		for x := reach; x < inner && x < len(in); x++ {
			sum := 1 << 15
			for i, f := range kernel {
				sum += int(in[x-reach+i*channels]) * f
			}
			out[x] = uint8(sum >> 16)
		}
	}
	for x := inner; x < len(in); x++ {
		edge(x)
	}
}

// MotionBlur smears the image in place along a line of the given length in pixels, at an angle in
// radians from the horizontal, as a moving camera does. A length of one pixel or less, or NaN,
// changes nothing.
func MotionBlur(im *Image, length, angle float64) {
	if !(length > 1) || math.IsNaN(angle) || math.IsInf(angle, 0) || len(im.Pix) == 0 {
		return
	}
	length = min(length, float64(im.Width+im.Height))
	taps := int(math.Ceil(length))
	p := planePool.Get().(*plane)
	defer planePool.Put(p)
	src := p.sized(len(im.Pix))
	copy(src, im.Pix)
	in := &Image{src, im.Width, im.Height, im.Channels}
	dx, dy := make([]int, taps), make([]int, taps)
	for t := range taps {
		at := (float64(t)+0.5)/float64(taps)*length - length/2
		dx[t], dy[t] = int(math.Round(at*math.Cos(angle))), int(math.Round(at*math.Sin(angle)))
	}
	acc := make([]int, im.Width*im.Channels)
	for y := range im.Height {
		clear(acc)
		for t := range taps {
			row := in.Row(min(max(y+dy[t], 0), im.Height-1))
			for x := range im.Width {
				i := min(max(x+dx[t], 0), im.Width-1) * im.Channels
				for k := range im.Channels {
					acc[x*im.Channels+k] += int(row[i+k])
				}
			}
		}
		out := im.Row(y)
		for x, v := range acc {
			out[x] = uint8((v + taps/2) / taps)
		}
	}
}

// Degrade removes detail as a distant camera does, in place: it shrinks the image to width x
// height pixels and stretches it back with f. Sides are limited to at least 1 and at most the
// image's own.
func Degrade(im *Image, width, height int, f Filter) error {
	if len(im.Pix) == 0 {
		return nil
	}
	small, err := im.Resized(min(max(width, 1), im.Width), min(max(height, 1), im.Height), Box)
	if err != nil {
		return err
	}
	return Resize(im, small, f)
}
