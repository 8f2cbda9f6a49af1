package plates

import (
	"fmt"

	"github.com/gotrainer/gotrainer/vision"
)

// Fit converts any photograph of a plate to the reader's input: gray, resized to Width x Height
// without keeping the aspect ratio. Crop the photograph to the plate first.
func Fit(im *vision.Image) (*vision.Image, error) {
	return im.Gray().Resized(Width, Height, vision.Bicubic)
}

// WritePixels writes the image of a sample into dst, which holds Width*Height values, and
// normalizes it by its own statistics: minus its mean, divided by its standard deviation plus 4
// gray levels. With a fixed mean and deviation, Hezar's form of the network, which normalizes only
// two of its blocks, read none of 500 unseen plates after 750 updates; with this, 43 %.
func WritePixels(dst []float32, s Sample) error {
	if s.Image == nil || s.Image.Width != Width || s.Image.Height != Height || s.Image.Channels != 1 {
		return fmt.Errorf("plates: sample %q holds a %v picture: want %dx%d grey, which Fit makes", s.Label, s.Image,
			Width, Height)
	}
	return vision.Standardize(dst, s.Image, 4)
}
