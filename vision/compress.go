package vision

import (
	"fmt"
	"math"
)

// CompressJPEG adds the artifacts of JPEG compression to a gray image, in place: each block of 8x8
// pixels is transformed by the cosine transform, rounded to the quantization table of the given
// quality (1 to 100, libjpeg's scale) and transformed back. It encodes no bytes, so it takes a few
// percent of the time of a real encode and decode.
func CompressJPEG(im *Image, quality int) error {
	if im.Channels != 1 || quality < 1 || quality > 100 {
		return fmt.Errorf("vision: CompressJPEG(%v, %d): want a grey image and a quality of 1 to 100", im, quality)
	}
	var step, inverse [64]float32
	for i, base := range jpegLuminance {
		q := 200 - 2*quality
		if quality < 50 {
			q = 5000 / quality
		}
		step[i] = float32(min(max((base*q+50)/100, 1), 255))
		inverse[i] = 1 / step[i]
	}
	var block [64]float32
	for y0 := 0; y0 < im.Height; y0 += 8 {
		for x0 := 0; x0 < im.Width; x0 += 8 {
			h, w := min(8, im.Height-y0), min(8, im.Width-x0)
			for y := range 8 { // a block beyond the border repeats the last pixels, as encoders do
				row := im.Row(y0 + min(y, h-1))
				for x := range 8 {
					block[8*y+x] = float32(row[x0+min(x, w-1)]) - 128
				}
			}
			transform(&block, &cosines)
			for i, v := range block {
				block[i] = roundHalf(v*inverse[i]) * step[i]
			}
			transform(&block, &cosinesT)
			for y := range h {
				row := im.Row(y0 + y)
				for x := range w {
					v := block[8*y+x] + 128.5
					row[x0+x] = uint8(max(0, min(v, 255)))
				}
			}
		}
	}
	return nil
}

// roundHalf rounds to the nearest integer by adding and subtracting 1.5*2^23.
func roundHalf(v float32) float32 {
	const magic = 3 << 22
	return float32(v+magic) - magic
}

// transform computes m * block * transpose(m).
func transform(block *[64]float32, m *[64]float32) {
	var t [64]float32
	for i := range 8 { // t = block * transpose(m)
		b := block[8*i : 8*i+8 : 8*i+8]
		for j := range 8 {
			r := m[8*j : 8*j+8 : 8*j+8]
			t[8*i+j] = b[0]*r[0] + b[1]*r[1] + b[2]*r[2] + b[3]*r[3] + b[4]*r[4] + b[5]*r[5] + b[6]*r[6] + b[7]*r[7]
		}
	}
	for i := range 8 {
		r := m[8*i : 8*i+8 : 8*i+8]
		for j := range 8 {
			block[8*i+j] = r[0]*t[j] + r[1]*t[8+j] + r[2]*t[16+j] + r[3]*t[24+j] + r[4]*t[32+j] + r[5]*t[40+j] +
				r[6]*t[48+j] + r[7]*t[56+j]
		}
	}
}

// cosines is the orthonormal cosine transform of eight points, cosinesT its inverse.
var cosines, cosinesT = func() (m, t [64]float32) {
	for k := range 8 {
		for n := range 8 {
			v := math.Sqrt(0.25) * math.Cos(float64(2*n+1)*float64(k)*math.Pi/16)
			if k == 0 {
				v = math.Sqrt(0.125)
			}
			m[8*k+n], t[8*n+k] = float32(v), float32(v)
		}
	}
	return m, t
}()

// jpegLuminance is the quantization table of Annex K of the JPEG standard.
var jpegLuminance = [64]int{
	16, 11, 10, 16, 24, 40, 51, 61,
	12, 12, 14, 19, 26, 58, 60, 55,
	14, 13, 16, 24, 40, 57, 69, 56,
	14, 17, 22, 29, 51, 87, 80, 62,
	18, 22, 37, 56, 68, 109, 103, 77,
	24, 35, 55, 64, 81, 104, 113, 92,
	49, 64, 78, 87, 103, 121, 120, 101,
	72, 92, 95, 98, 112, 100, 103, 99,
}
