package vision

import (
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// kinds returns images with random pixels, of every type that the standard library's decoders
// return.
func kinds(random *rand.Rand, r image.Rectangle) []image.Image {
	fill := func(p []uint8) []uint8 {
		for i := range p {
			p[i] = uint8(random.Uint32())
		}
		return p
	}
	opaque := func(p []uint8, pixel, alpha int) {
		for i := 0; i < len(p); i += pixel {
			for k := pixel - alpha; k < pixel; k++ {
				p[i+k] = 255
			}
		}
	}
	gray, gray16, nrgba, nrgba64 := image.NewGray(r), image.NewGray16(r), image.NewNRGBA(r), image.NewNRGBA64(r)
	rgba, rgba64, blended := image.NewRGBA(r), image.NewRGBA64(r), image.NewRGBA(r)
	for _, p := range [][]uint8{gray.Pix, gray16.Pix, nrgba.Pix, nrgba64.Pix, rgba.Pix, rgba64.Pix} {
		fill(p)
	}
	opaque(rgba.Pix, 4, 1)
	opaque(rgba64.Pix, 8, 2)
	for i := 0; i < len(blended.Pix); i += 4 { // premultiplied
		a := uint8(random.Uint32())
		for k := range 3 {
			blended.Pix[i+k] = uint8(random.UintN(uint(a) + 1))
		}
		blended.Pix[i+3] = a
	}
	palette := image.NewPaletted(r, color.Palette{color.NRGBA{1, 2, 3, 0}, color.RGBA{200, 100, 50, 255}, color.Gray{9}})
	for i := range palette.Pix {
		palette.Pix[i] = uint8(random.UintN(5)) // some are beyond the palette
	}
	all := []image.Image{gray, gray16, nrgba, nrgba64, rgba, rgba64, blended, palette, image.NewCMYK(r)}
	for _, ratio := range []image.YCbCrSubsampleRatio{image.YCbCrSubsampleRatio444, image.YCbCrSubsampleRatio422,
		image.YCbCrSubsampleRatio420, image.YCbCrSubsampleRatio440, image.YCbCrSubsampleRatio411,
		image.YCbCrSubsampleRatio410} {
		im := image.NewYCbCr(r, ratio)
		fill(im.Y)
		fill(im.Cb)
		fill(im.Cr)
		all = append(all, im)
	}
	return all
}

func TestGreyOfAFileIsThatOfItsColours(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, r := range []image.Rectangle{image.Rect(0, 0, 17, 9), image.Rect(3, 5, 20, 13), image.Rect(2, 4, 10, 5),
		image.Rect(0, 0, 1, 1), image.Rect(0, 0, 0, 4), image.Rect(0, 0, 4, 0)} {
		for _, im := range kinds(random, r) {
			assert.Equal(t, FromStd(im).Gray(), grayFromStd(im), "%T %v", im, r)
		}
	}
}

// The buffers that files are read into are reused across calls.
func TestImagesOfManyGoroutinesKeepApart(t *testing.T) {
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(3, 4))
	var paths []string
	var want []*Image
	for i := range 6 {
		im := NewImage(20+i, 30, 3)
		for k := range im.Pix {
			im.Pix[k] = uint8(random.Uint32())
		}
		path := filepath.Join(dir, fmt.Sprint(i, ".png"))
		f, err := os.Create(path)
		require.NoError(t, err)
		require.NoError(t, png.Encode(f, im.Std()))
		require.NoError(t, f.Close())
		paths, want = append(paths, path), append(want, im)
	}
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for n := range 60 {
				i := (g + n) % len(paths)
				im, err := Open(paths[i], DecodeOptions{})
				if err != nil || !assert.ObjectsAreEqual(want[i], im) {
					t.Errorf("%s: %v, or other pixels", paths[i], err)
					return
				}
			}
		})
	}
	all.Wait()
}
