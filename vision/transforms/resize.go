package transforms

import (
	"fmt"

	"github.com/gotrainer/gotrainer/vision"
)

// Interpolation is a resampling filter: torchvision's InterpolationMode. The zero value is
// Bilinear. All but Nearest average over all source pixels when an image shrinks (antialiasing), as
// Pillow does.
type Interpolation string

// The filters.
const (
	Bilinear Interpolation = "bilinear"
	Nearest  Interpolation = "nearest"
	Bicubic  Interpolation = "bicubic"
	Box      Interpolation = "box"
	Hamming  Interpolation = "hamming"
	Lanczos  Interpolation = "lanczos"
)

func (i Interpolation) filter() (vision.Filter, error) {
	for _, f := range []vision.Filter{vision.Bilinear, vision.Nearest, vision.Bicubic, vision.Box, vision.Hamming,
		vision.Lanczos} {
		if i == "" || string(i) == f.String() {
			return f, nil
		}
	}
	return 0, fmt.Errorf("the interpolation is %q; want bilinear, nearest, bicubic, box, hamming or lanczos", i)
}

// resize changes the size, unless it is that already.
func (p *Picture) resize(height, width int, i Interpolation) error {
	f, err := i.filter()
	if err != nil || height == p.Image.Height && width == p.Image.Width {
		return err
	}
	if p.Image, err = p.Image.Resized(width, height, f); err == nil && p.Labels != nil {
		p.Labels, err = p.Labels.Resized(width, height)
	}
	return err
}

// Resize resizes images: torchvision.transforms.Resize.
type Resize struct {
	Size          int // of the shorter side; the aspect ratio is kept
	MaxSize       int // limit for the longer side, by which the shorter becomes less than Size; zero: no limit
	Height, Width int // of both sides, instead of Size
	Interpolation Interpolation
}

// Apply resizes the image.
func (r Resize) Apply(p *Picture, _ Generator) error {
	if p.Image == nil {
		return errNumbers
	}
	height, width := r.Height, r.Width
	switch both := height > 0 && width > 0 && r.Size == 0 && r.MaxSize == 0; {
	case !both && (r.Size <= 0 || height != 0 || width != 0):
		return fmt.Errorf("its Size is %d, Height %d, Width %d and MaxSize %d: want Size alone or with MaxSize, or "+
			"Height "+
			"and Width", r.Size, r.Height, r.Width, r.MaxSize)
	case r.MaxSize != 0 && r.MaxSize <= r.Size:
		return fmt.Errorf("MaxSize is %d: want more than Size, which is %d", r.MaxSize, r.Size)
	case !both:
		height, width = r.shape(p.Image)
	}
	if height < 1 || width < 1 {
		return fmt.Errorf("a %v image would be %dx%d: want a larger Size or MaxSize", p.Image, width, height)
	}
	return p.resize(height, width, r.Interpolation)
}

// shape returns the new size of an image whose shorter side becomes Size.
func (r Resize) shape(im *vision.Image) (height, width int) {
	short, long := min(im.Height, im.Width), max(im.Height, im.Width)
	newShort := r.Size
	newLong := int(float64(newShort*long) / float64(short))
	if r.MaxSize > 0 && newLong > r.MaxSize {
		newShort, newLong = int(float64(r.MaxSize*newShort)/float64(newLong)), r.MaxSize
	}
	if im.Width <= im.Height {
		return newLong, newShort
	}
	return newShort, newLong
}
