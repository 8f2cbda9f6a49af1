package transforms_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/vision"
	"github.com/gotrainer/gotrainer/vision/transforms"
)

// labelled returns an image whose shades are the classes of its pixels.
func labelled(width, height int) (*vision.Image, *vision.LabelMap) {
	im, labels := vision.NewImage(width, height, 1), vision.NewLabelMap(width, height)
	for i := range im.Pix {
		im.Pix[i], labels.Pix[i] = uint8(1+i), uint16(1+i)
	}
	return im, labels
}

// TestImageAndLabelsMoveTogether: a label stays with its pixel.
func TestImageAndLabelsMoveTogether(t *testing.T) {
	im, labels := labelled(13, 11)
	before, g := labels.Clone(), transforms.NewGenerator(3)
	for _, c := range []transforms.Compose{
		{transforms.RandomHorizontalFlip{P: 1}},
		{transforms.RandomVerticalFlip{P: 1}},
		{transforms.CenterCrop{Height: 4, Width: 7}},
		{transforms.Resize{Height: 5, Width: 29, Interpolation: transforms.Nearest}},
		{transforms.Resize{Size: 20, Interpolation: transforms.Nearest}},
		{transforms.RandomHorizontalFlip{}, transforms.RandomVerticalFlip{},
			transforms.RandomResizedCrop{Size: 9, Scale: [2]float64{0.2, 0.9}, Interpolation: transforms.Nearest}},
	} {
		for range 5 {
			p, err := c.RunLabeled(im, labels, 255, g)
			require.NoError(t, err)
			require.Equal(t, []int{p.Image.Width, p.Image.Height}, []int{p.Labels.Width, p.Labels.Height})
			for i, class := range p.Labels.Pix {
				require.Equal(t, uint16(p.Image.Pix[i]), class, "%T", c[0])
			}
		}
	}
	assert.Equal(t, before, labels)
}

func TestWhatACropAddsGetsTheLabelFill(t *testing.T) {
	im, labels := labelled(3, 2)
	p, err := transforms.Compose{transforms.CenterCrop{Height: 4, Width: 2}}.RunLabeled(im, labels, 255, nil)
	require.NoError(t, err)
	assert.Equal(t, []uint16{255, 255, 1, 2, 4, 5, 255, 255}, p.Labels.Pix)
	assert.Equal(t, []uint8{0, 0, 1, 2, 4, 5, 0, 0}, p.Image.Pix)

	p, err = transforms.Compose{transforms.ColorJitter{Brightness: transforms.By(0.5)}}.RunLabeled(im.RGB(), labels, 255,
		transforms.NewGenerator(1))
	require.NoError(t, err)
	assert.Equal(t, labels, p.Labels)

	_, err = transforms.Compose{}.RunLabeled(im, vision.NewLabelMap(2, 3), 255, nil)
	require.ErrorContains(t, err, "the image is 3x2 grey and its labels 2x3 labels: want both of the same size")
	_, err = labels.Pad(-3, 0, 0, 0, 0)
	require.ErrorContains(t, err, "leaves 0x2 pixels")
}
