package plates

import (
	"fmt"
	"sync"

	"github.com/gotrainer/gotrainer/vision"
)

// Fit makes of any photograph of a plate what the reader sees: grey, squeezed to Width x Height. The box around the
// plate should be cut out of the photograph before.
func Fit(im *vision.Image) (*vision.Image, error) {
	return im.Gray().Resized(Width, Height, vision.Bicubic)
}

var normalizer = sync.OnceValues(func() (*vision.Normalizer, error) {
	return vision.NewNormalizer(1, 1, []float64{127.5}, []float64{64})
})

// WritePixels writes the picture of a sample into dst as the reader wants it: Width*Height values (v - 127.5) / 64.
func WritePixels(dst []float32, s Sample) error {
	if s.Image == nil || s.Image.Width != Width || s.Image.Height != Height {
		return fmt.Errorf("plates: sample %q holds a %v picture: want %dx%d grey, which Fit makes", s.Label, s.Image, Width, Height)
	}
	n, err := normalizer()
	if err != nil {
		return err
	}
	return n.Normalize(dst, s.Image)
}
