package inputs

import (
	"fmt"

	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// ImageTokens says how a text names its images: each by so many tokens with an id of their own, in
// whose places the model puts what it sees.
type ImageTokens struct {
	ID       int64
	PerImage int
}

// Fault says why a text cannot have a number of images; empty: it can.
func (t ImageTokens) Fault(ids []int64, images int) string {
	found := 0
	for _, id := range ids {
		if id == t.ID {
			found++
		}
	}
	if found == images*t.PerImage {
		return ""
	}
	return fmt.Sprintf("the text has %d image tokens (id %d), and %d images need %d, %d each; a text that is cut must "+
		"not lose any of them", found, t.ID, images, images*t.PerImage, t.PerImage)
}

// ImageTexts is some texts, and their images one after another.
type ImageTexts struct {
	Batch
	Images Images // without Pixels if no text has one
	Counts []int  // of the images of each text
}

// To copies a batch to the device of a pass: ids and mask as [Batch.To] does, and pixels, [N,
// channels, height, width], which are undefined if no text has an image.
func (b ImageTexts) To(p engine.ForwardPass) (ids, mask, pixels torch.Tensor) {
	ids, mask, _ = b.Batch.To(p)
	if len(b.Images.Pixels) > 0 {
		pixels = b.Images.To(p)
	}
	return ids, mask, pixels
}

// CollateAll joins the images of texts to a batch, and refuses what a model with these limits
// cannot take. It is [ImageLimits.Collate] for any number of images of each sample.
func (l ImageLimits) CollateAll(pkg string, images [][]Image, memory func(n int) []float32) (b Images, counts []int,
	err error) {
	var all []Image
	for i, own := range images {
		for j, im := range own {
			if reason := l.Fault(im); reason != "" {
				return b, nil, &SampleError{pkg, i, fmt.Sprintf("image %d: %s", j, reason)}
			}
		}
		all, counts = append(all, own...), append(counts, len(own))
	}
	if len(all) > 0 {
		b, err = l.Collate(pkg, all, memory)
	}
	return b, counts, err
}
