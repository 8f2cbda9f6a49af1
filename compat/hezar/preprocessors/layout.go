package preprocessors

import (
	"fmt"

	"github.com/gotrainer/gotrainer/vision"
)

// ProcessLikeHezar is Process with Hezar's guess about the layout: at each step it takes a picture of up to three rows for one whose channels come
// first, so that rows become channels and the picture lies on its side. Only for comparisons; pictures of more rows have the same result either way.
func (p *ImageProcessor) ProcessLikeHezar(im *vision.Image) (pixels []float32, shape [3]int, err error) {
	if im.Height > 3 && (p.Config.Height == 0 || p.Config.Height > 3) {
		c, h, w := p.Shape(im)
		pixels, err = p.Process(im)
		return pixels, [3]int{c, h, w}, err
	}
	steps := p.Config.GrayScale || p.Config.Mirror || p.Config.Width > 0
	if im.Height != 3 || im.Channels != 3 || !steps || p.Config.Height > 0 && p.Config.Height <= 3 || !p.Config.GrayScale && im.Width <= 3 {
		return nil, shape, fmt.Errorf("preprocessors: what Hezar makes of a picture of %d rows with this config is not known", im.Height)
	}
	turned := vision.NewImage(3, im.Width, 3) // its rows are the columns, its columns the channels, its channels the rows
	for row := range 3 {
		for column := range im.Width {
			for channel := range 3 {
				turned.Pix[(column*3+channel)*3+row] = im.Pix[(row*im.Width+column)*3+channel]
			}
		}
	}
	c, h, w := p.Shape(turned)
	pixels, err = p.Process(turned)
	return pixels, [3]int{c, h, w}, err
}
