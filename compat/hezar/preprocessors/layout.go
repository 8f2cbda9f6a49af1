package preprocessors

import (
	"fmt"

	"github.com/gotrainer/gotrainer/vision"
)

// guessed is up to how many rows Hezar takes for channels.
const guessed = 3

// ProcessLikeHezar is Process with Hezar's guess about the layout: before each step it takes a picture of up to three rows for one whose channels come
// first, so that rows become channels and the picture lies on its side, and at the end it leaves the channels where they are. Only for comparisons; pictures
// of more rows have the same result either way. It refuses the few combinations whose result depends on Pillow's modes with transparency.
func (p *ImageProcessor) ProcessLikeHezar(im *vision.Image) (pixels []float32, shape [3]int, err error) {
	c := p.Config
	im = im.RGB()
	if im.Height <= guessed && (c.GrayScale || c.Mirror || c.Width > 0) {
		switch {
		case im.Width <= guessed || im.Height == 2 && !c.GrayScale:
			return nil, shape, fmt.Errorf("preprocessors: what Hezar makes of a picture of %d x %d with this config is not known", im.Width, im.Height)
		case im.Height == guessed:
			im = turned(im, guessed)
		default: // of two rows the second is taken for transparency
			im = turned(im, 1)
			c.GrayScale = true
		}
		if p, err = NewImageProcessor(c); err != nil {
			return nil, shape, err
		}
	}
	channels, height, width := p.Shape(im)
	if pixels, err = p.Process(im); err != nil || height > guessed || channels == 1 {
		return pixels, [3]int{channels, height, width}, err
	}
	last := make([]float32, len(pixels))
	for ch := range channels {
		for i, v := range pixels[ch*height*width:][:height*width] {
			last[i*channels+ch] = v
		}
	}
	return last, [3]int{height, width, channels}, nil
}

// turned takes the first rows of a picture for channels: its columns become rows, its channels columns.
func turned(im *vision.Image, channels int) *vision.Image {
	out := vision.NewImage(im.Channels, im.Width, channels)
	for row := range channels {
		for column := range im.Width {
			for channel := range im.Channels {
				out.Pix[(column*im.Channels+channel)*channels+row] = im.Pix[(row*im.Width+column)*im.Channels+channel]
			}
		}
	}
	return out
}
