package vision

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// acceptedAlike reports whether decodeJPEG decodes a file; if so, image/jpeg must decode it too,
// with the same size.
func acceptedAlike(t testing.TB, raw []byte) bool {
	im := decodeJPEG(raw, DecodeOptions{MaxPixels: 1 << 22})
	if im == nil {
		return false
	}
	std, err := jpeg.Decode(bytes.NewReader(raw))
	require.NoError(t, err, "image/jpeg refuses it")
	require.Equal(t, FromStd(std).String(), im.String())
	gray := decodeJPEG(raw, DecodeOptions{Gray: true, MaxPixels: 1 << 22})
	require.True(t, bytes.Equal(im.Gray().Pix, gray.Pix), "grey is other than the colours'")
	return true
}

// TestImagesAreWhatPillowMakesOfThem compares the pixels with Pillow's.
func TestUsualJPEGsAreNotLeftToImageJPEG(t *testing.T) {
	stride := 1
	if testing.Short() {
		stride = 11
	}
	for name, usual := range map[string]bool{"jpeg420.jpg": true, "jpeg422.jpg": true, "jpeg444.jpg": true,
		"jpeg_gray.jpg": true, "jpeg_progressive.jpg": false} {
		raw := file(t, name)
		assert.Equal(t, usual, acceptedAlike(t, raw), name)
		for i := 0; i < len(raw); i += stride {
			assert.False(t, acceptedAlike(t, raw[:i]), "%s cut after %d bytes", name, i)
			damaged := bytes.Clone(raw)
			damaged[i] ^= 1 << (i % 8)
			acceptedAlike(t, damaged)
		}
	}
}

// Noise at all qualities exercises long codes, large coefficients and odd sizes. The results may
// differ from image/jpeg only by the rounding of the two transforms.
func TestJPEGsAreNearImageJPEG(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for _, quality := range []int{1, 20, 75, 95, 100} {
		for _, size := range [][2]int{{1, 1}, {8, 8}, {17, 15}, {40, 33}} {
			src, gray := image.NewRGBA(image.Rect(0, 0, size[0], size[1])), image.NewGray(image.Rect(0, 0, size[0], size[1]))
			for y := range size[1] {
				for x := range size[0] {
					v := random.Uint32()
					src.Set(x, y, color.RGBA{uint8(v), uint8(v >> 8), uint8(v >> 16), 255})
					gray.Set(x, y, color.Gray{uint8(v >> 24)})
				}
			}
			for _, im := range []image.Image{src, gray} {
				var b bytes.Buffer
				require.NoError(t, jpeg.Encode(&b, im, &jpeg.Options{Quality: quality}))
				got := decodeJPEG(b.Bytes(), DecodeOptions{})
				require.NotNil(t, got, "left to image/jpeg")
				std, err := jpeg.Decode(&b)
				require.NoError(t, err)
				worst, _ := furthest(got.Pix, FromStd(std).Pix)
				assert.LessOrEqual(t, worst, 3, "quality %d, %v", quality, size)
			}
		}
	}
}

func TestInverseDCT(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	for _, highest := range []int{0, 0, 1, 2, 5, 20, 40, 63} {
		var b [64]int32
		for k := range highest + 1 {
			b[zigzag[k]] = random.Int32N(200) - 100
		}
		var want [64]float64
		for i := range want {
			for k, c := range b {
				u, v := float64(k%8), float64(k/8)
				scale := 0.25
				if k%8 == 0 {
					scale *= math.Sqrt2 / 2
				}
				if k/8 == 0 {
					scale *= math.Sqrt2 / 2
				}
				want[i] += scale * float64(c) * math.Cos(float64(2*(i%8)+1)*u*math.Pi/16) *
					math.Cos(float64(2*(i/8)+1)*v*math.Pi/16)
			}
		}
		full, out := b, make([]uint8, 64)
		inverseDCT(&b, highest, out, 8)
		for i, v := range out {
			require.InDelta(t, min(max(want[i]+128, 0), 255), float64(v), 0.6, "highest %d, sample %d", highest, i)
		}
		same := make([]uint8, 64)
		inverseDCT(&full, 63, same, 8)
		require.Equal(t, same, out, "what is known of the zeros makes a difference")
	}
}

func FuzzJPEG(f *testing.F) {
	files, err := filepath.Glob("testdata/files/*.jpg")
	require.NoError(f, err)
	for _, name := range files {
		raw, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) { acceptedAlike(t, raw) })
}
