package transforms

import (
	"fmt"
	"math"
)

// square returns the height and width given by Size, or by Height and Width instead.
func square(size, height, width int) (h, w int, err error) {
	switch {
	case size > 0 && height == 0 && width == 0:
		return size, size, nil
	case size == 0 && height > 0 && width > 0:
		return height, width, nil
	}
	return 0, 0, fmt.Errorf("its Size is %d, Height %d and Width %d: want Size alone, or Height and Width", size,
		height,
		width)
}

// CenterCrop cuts out the center: torchvision.transforms.CenterCrop. A smaller image is padded with
// black.
type CenterCrop struct {
	Size          int // of both sides
	Height, Width int // instead of Size
}

// Apply crops the image.
func (c CenterCrop) Apply(p *Picture, _ Generator) error {
	if p.Image == nil {
		return errNumbers
	}
	height, width, err := square(c.Size, c.Height, c.Width)
	if err != nil {
		return err
	}
	dy, dx := max(height-p.Image.Height, 0), max(width-p.Image.Width, 0)
	if err := p.pad(dx/2, dy/2, (dx+1)/2, (dy+1)/2); err != nil {
		return err
	}
	top := int(math.RoundToEven(float64(p.Image.Height-height) / 2))
	left := int(math.RoundToEven(float64(p.Image.Width-width) / 2))
	return p.cut(top, left, height, width)
}

// cut leaves the part of that size that begins at top and left.
func (p *Picture) cut(top, left, height, width int) error {
	return p.pad(-left, -top, left+width-p.Image.Width, top+height-p.Image.Height)
}

// pad adds columns and rows, or removes them.
func (p *Picture) pad(left, top, right, bottom int) (err error) {
	if left == 0 && top == 0 && right == 0 && bottom == 0 {
		return nil
	}
	if p.Image, err = p.Image.Pad(left, top, right, bottom, 0); err == nil && p.Labels != nil {
		p.Labels, err = p.Labels.Pad(left, top, right, bottom, p.FillLabel)
	}
	return err
}

// RandomResizedCrop cuts out a part of random size, aspect ratio and position, and resizes it:
// torchvision.transforms.RandomResizedCrop.
type RandomResizedCrop struct {
	Size          int        // of both sides of the result
	Height, Width int        // of the result, instead of Size
	Scale         [2]float64 // least and greatest share of the image's area; zero: 0.08 and 1
	Ratio         [2]float64 // least and greatest width of the part divided by its height; zero: 3/4 and 4/3
	Interpolation Interpolation
}

// Apply crops and resizes the image.
func (c RandomResizedCrop) Apply(p *Picture, g Generator) error {
	switch {
	case p.Image == nil:
		return errNumbers
	case g == nil:
		return errNoGenerator
	}
	height, width, err := square(c.Size, c.Height, c.Width)
	if err != nil {
		return err
	}
	box, err := c.Params(p.Image.Height, p.Image.Width, g)
	if err != nil {
		return err
	}
	if err := p.cut(box.Top, box.Left, box.Height, box.Width); err != nil {
		return err
	}
	return p.resize(height, width, c.Interpolation)
}

// Crop is a part of an image, in pixels.
type Crop struct{ Top, Left, Height, Width int }

// Params draws the part of an image of this size: RandomResizedCrop.get_params.
//
// PyTorch's exponential function in float32 is from an Intel library, which rounds differently in
// one case in a hundred. The aspect ratio then differs in its last bit, which changes about one
// crop in ten million.
func (c RandomResizedCrop) Params(height, width int, g Generator) (Crop, error) {
	scale, ratio := c.Scale, c.Ratio
	if scale == [2]float64{} {
		scale = [2]float64{0.08, 1}
	}
	if ratio == [2]float64{} {
		ratio = [2]float64{3. / 4, 4. / 3}
	}
	if !(scale[0] >= 0 && scale[0] <= scale[1] && !math.IsInf(scale[1], 1)) ||
		!(ratio[0] > 0 && ratio[0] <= ratio[1] && !math.IsInf(ratio[1], 1)) {
		return Crop{}, fmt.Errorf("its Scale is %v and Ratio %v: want the lesser number first, and a Ratio above zero",
			scale, ratio)
	}
	if height < 1 || width < 1 {
		return Crop{}, fmt.Errorf("the image has %dx%d pixels: want at least 1x1", width, height)
	}
	low, high := log(ratio[0]), log(ratio[1])
	area := float64(height * width)
	for range 10 {
		target := area * float64(uniform(g, float32(scale[0]), float32(scale[1])))
		aspect := float64(float32(math.Exp(float64(uniform(g, low, high)))))
		w := int(math.RoundToEven(math.Sqrt(target * aspect)))
		h := int(math.RoundToEven(math.Sqrt(target / aspect)))
		if w > 0 && w <= width && h > 0 && h <= height {
			top := below(g, height-h+1)
			return Crop{top, below(g, width-w+1), h, w}, nil
		}
	}
	h, w := height, width // the center, as large as the aspect ratios allow
	switch whole := float64(width) / float64(height); {
	case whole < ratio[0]:
		h = int(math.RoundToEven(float64(w) / ratio[0]))
	case whole > ratio[1]:
		w = int(math.RoundToEven(float64(h) * ratio[1]))
	}
	return Crop{(height - h) / 2, (width - w) / 2, h, w}, nil
}

// log is torch.log of a float32 tensor.
func log(x float64) float32 { return float32(math.Log(float64(float32(x)))) }
