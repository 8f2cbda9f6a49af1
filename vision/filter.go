package vision

import (
	"fmt"
	"math"
)

// Filter is a resampling filter of Pillow. The zero value is Bicubic, Pillow's own default.
type Filter uint8

const (
	Bicubic  Filter = iota // cubic convolution with a = -0.5
	Nearest                // the pixel under the center; no averaging
	Bilinear               // triangle
	Box                    // plain mean of the covered pixels
	Hamming                // sharper than Bilinear, same cost
	Lanczos                // truncated sinc of three lobes
)

var filterNames = [...]string{"bicubic", "nearest", "bilinear", "box", "hamming", "lanczos"}

// String returns Pillow's name in lower case.
func (f Filter) String() string {
	if int(f) < len(filterNames) {
		return filterNames[f]
	}
	return fmt.Sprintf("vision.Filter(%d)", uint8(f))
}

// FilterByNumber returns the filter for a number of Pillow's Resampling, as written in the
// "resample" field of preprocessor configurations: 0 nearest, 1 lanczos, 2 bilinear, 3 bicubic, 4
// box, 5 hamming.
func FilterByNumber(n int) (Filter, error) {
	if n < 0 || n >= len(filtersByNumber) {
		return 0, fmt.Errorf("vision: resample %d: want a number of Pillow's Resampling, 0 (nearest) to 5 (hamming)", n)
	}
	return filtersByNumber[n], nil
}

var filtersByNumber = [...]Filter{Nearest, Lanczos, Bilinear, Bicubic, Box, Hamming}

// support is the radius at which the kernel becomes zero, in source pixels when enlarging.
func (f Filter) support() float64 {
	switch f {
	case Box:
		return 0.5
	case Bilinear, Hamming:
		return 1
	case Lanczos:
		return 3
	}
	return 2
}

// at evaluates the kernel by the operations of Pillow's Resample.c in the same order: another order
// can change how a coefficient is rounded.
func (f Filter) at(x float64) float64 {
	switch f {
	case Box:
		if x > -0.5 && x <= 0.5 {
			return 1
		}
		return 0
	case Bilinear:
		if x = math.Abs(x); x < 1 {
			return 1 - x
		}
		return 0
	case Hamming:
		x = math.Abs(x)
		if x == 0 {
			return 1
		}
		if x >= 1 {
			return 0
		}
		x *= math.Pi
		return math.Sin(x) / x * (0.54 + float64(0.46*math.Cos(x)))
	case Lanczos:
		if -3 <= x && x < 3 {
			return sinc(x) * sinc(x/3)
		}
		return 0
	}
	const a = -0.5
	x = math.Abs(x)
	if x < 1 {
		return float64(float64(float64((a+2)*x)-(a+3))*x)*x + 1
	}
	if x < 2 {
		return (float64(float64(float64((x-5)*x)+8)*x) - 4) * a
	}
	return 0
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	x *= math.Pi
	return math.Sin(x) / x
}
