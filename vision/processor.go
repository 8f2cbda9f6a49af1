package vision

import (
	"errors"
	"fmt"
)

// ProcessorOptions says how images are prepared for a model. The fields are those of Hezar's image
// processor and of Hugging Face's preprocessor_config.json. A zero value skips its step.
type ProcessorOptions struct {
	Gray          bool // one channel instead of three
	Mirror        bool // flip left to right, before resizing
	Width, Height int  // size to resize to, both or none; the aspect ratio is not kept
	ShortestEdge  int  // size of the shorter side instead; the aspect ratio is kept
	// LongestEdge, together with ShortestEdge, is what the longer side has at most: the shorter one
	// becomes less than ShortestEdge if needed. Then Multiple, if set, is a number of which both
	// sides are multiples; they are rounded down.
	LongestEdge, Multiple int
	// MaxWidth and MaxHeight are a size that the image fills in one direction instead, both or none;
	// the aspect ratio is kept.
	MaxWidth, MaxHeight int
	Filter              Filter // for resizing; the zero value is Bicubic, Pillow's and Hezar's default
	// CropWidth and CropHeight are the size of the center that is cut out after resizing, both or
	// none. A smaller image is padded with black.
	CropWidth, CropHeight int
	Rescale               float64 // factor of the samples, such as 1/255.; zero means none
	// Mean and Std are subtracted and divided by after rescaling: one for each channel or one for
	// all, both or none.
	Mean, Std []float64

	// ReduceLabels makes class 0 of label maps 255 and subtracts 1 from the others:
	// do_reduce_labels of transformers. It is for data sets whose class 0 is what belongs to no
	// class, as in ADE20K.
	ReduceLabels bool
	// PadWidth and PadHeight are the size that the image is filled up to with zeros, below and to the
	// right, after normalizing, both or none. A larger image is an error.
	PadWidth, PadHeight int

	// Float32 rescales and normalizes in float32 and rounds after each step, as transformers' image
	// processors do. Hezar's compute in float64 and round once.
	Float32 bool
	// Wrap8Bit repeats what Hezar does with Mean and Std when there is no Rescale: numpy keeps the
	// image in uint8, so both are cut to integers and the difference wraps around below zero. Use
	// it only for models that were trained that way.
	Wrap8Bit bool
}

// Processor prepares images in this order: gray, mirror, resize, crop, rescale, normalize, channels
// first, pad. Its results equal those of Hezar 1.0's image processor to the last bit. With Float32
// they equal those of the image processors of transformers 5.17 that [ProcessorConfig] reads, in
// their form for Pillow and numpy. It is safe for concurrent use.
type Processor struct {
	o ProcessorOptions
	n *Normalizer
}

// NewProcessor checks the options and prepares the tables.
func NewProcessor(o ProcessorOptions) (*Processor, error) {
	if err := o.checkSizes(); err != nil {
		return nil, err
	}
	if (len(o.Mean) == 0) != (len(o.Std) == 0) {
		return nil, fmt.Errorf("vision: processor with %d values of Mean and %d of Std: want both or none", len(o.Mean),
			len(o.Std))
	}
	channels := 3
	if o.Gray {
		channels = 1
	}
	if o.Wrap8Bit {
		if o.Rescale != 0 || len(o.Mean) == 0 || o.Float32 {
			return nil, errors.New("vision: processor: Wrap8Bit wants Mean and Std, no Rescale and no Float32")
		}
		n, err := wrapped(channels, o.Mean, o.Std)
		return &Processor{o, n}, err
	}
	scale := o.Rescale
	if scale == 0 {
		scale = 1
	}
	normalizer := NewNormalizer
	if o.Float32 {
		normalizer = newNormalizer32
	}
	n, err := normalizer(channels, scale, o.Mean, o.Std)
	return &Processor{o, n}, err
}

func (o ProcessorOptions) checkSizes() error {
	pair := func(a, b int) bool { return (a == 0) == (b == 0) && a >= 0 && b >= 0 }
	switch {
	case !pair(o.Width, o.Height) || int(o.Filter) >= len(filterNames):
		return fmt.Errorf("vision: processor of size %dx%d with filter %v: want both sides positive, or both "+
			"zero for no resizing, and a known filter", o.Width, o.Height, o.Filter)
	case o.ShortestEdge < 0 || o.ShortestEdge > 0 && o.Width > 0:
		return fmt.Errorf("vision: processor with ShortestEdge %d and size %dx%d: want one of them", o.ShortestEdge, o.Width,
			o.Height)
	case !pair(o.MaxWidth, o.MaxHeight) || o.MaxWidth > 0 && o.ShortestEdge+o.Width > 0:
		return fmt.Errorf("vision: processor with MaxWidth %d and MaxHeight %d, ShortestEdge %d and size %dx%d: want one "+
			"way to resize", o.MaxWidth, o.MaxHeight, o.ShortestEdge, o.Width, o.Height)
	case o.LongestEdge < 0 || o.LongestEdge > 0 && o.ShortestEdge == 0:
		return fmt.Errorf("vision: processor with LongestEdge %d and ShortestEdge %d: want both, or no LongestEdge",
			o.LongestEdge, o.ShortestEdge)
	case o.Multiple < 0 || o.Multiple > 0 && o.LongestEdge == 0:
		return fmt.Errorf("vision: processor with Multiple %d and LongestEdge %d: want both, or no Multiple", o.Multiple,
			o.LongestEdge)
	case !pair(o.PadWidth, o.PadHeight):
		return fmt.Errorf("vision: processor that fills images up to %dx%d: want both sides positive, or both zero",
			o.PadWidth, o.PadHeight)
	case !pair(o.CropWidth, o.CropHeight):
		return fmt.Errorf("vision: processor that cuts out %dx%d: want both sides positive, or both zero", o.CropWidth,
			o.CropHeight)
	}
	if most := max(o.Width, o.Height, o.ShortestEdge, o.LongestEdge, o.Multiple, o.MaxWidth, o.MaxHeight, o.CropWidth,
		o.CropHeight, o.PadWidth, o.PadHeight); most > maxSide {
		return fmt.Errorf("vision: processor with sides of %d pixels: want at most %d", most, maxSide)
	}
	return nil
}

// maxSide is far larger than the input of any model.
const maxSide = 1 << 15

// Options returns the options that the processor was made with.
func (p *Processor) Options() ProcessorOptions { return p.o }

// wrapped returns a normalizer that computes numpy's (uint8 - uint8) / uint8.
func wrapped(channels int, mean, std []float64) (*Normalizer, error) {
	return newNormalizer(channels, mean, std, func(c int, m, s float64) (func(v int) float32, error) {
		if !(m >= 0 && m < 256 && s >= 1 && s < 256) {
			return nil, fmt.Errorf("vision: processor: Wrap8Bit with mean %v and std %v in channel %d: want a mean "+
				"of 0 to 255 and a std of 1 to 255", m, s, c)
		}
		return func(v int) float32 { return float32(float64(uint8(v)-uint8(m)) / float64(uint8(s))) }, nil
	})
}

// Shape returns the channels, height and width of im after processing.
func (p *Processor) Shape(im *Image) (channels, height, width int) {
	channels = 3
	if p.o.Gray {
		channels = 1
	}
	if p.o.PadWidth > 0 {
		return channels, p.o.PadHeight, p.o.PadWidth
	}
	height, width = p.Extent(im)
	return channels, height, width
}

// Extent returns the height and width of the part of the result that shows im; the rest of Shape is
// padding.
func (p *Processor) Extent(im *Image) (height, width int) {
	if p.o.CropWidth > 0 {
		return p.o.CropHeight, p.o.CropWidth
	}
	return p.resized(im.Height, im.Width)
}

// resized returns the height and width that an image of the size h times w is resized to.
func (p *Processor) resized(h, w int) (height, width int) {
	switch edge := p.o.ShortestEdge; {
	case p.o.Width > 0:
		return p.o.Height, p.o.Width
	case p.o.MaxWidth > 0:
		return fitting(h, w, p.o.MaxHeight, p.o.MaxWidth)
	case p.o.LongestEdge > 0:
		return within(h, w, edge, p.o.LongestEdge, p.o.Multiple)
	case edge == 0:
		return h, w
	case w <= h:
		return longer(edge, h, w), edge
	default:
		return edge, longer(edge, w, h)
	}
}

// longer returns the length of the longer side of an image whose shorter side becomes edge.
func longer(edge, long, short int) int { return int(float64(edge*long) / float64(short)) }

// Len returns the number of values that Process writes for im.
func (p *Processor) Len(im *Image) int {
	c, h, w := p.Shape(im)
	return c * h * w
}

// Process writes the prepared image into dst, which must hold exactly Len values. It does not
// change im.
func (p *Processor) Process(dst []float32, im *Image) error {
	if n := im.Width * im.Height * im.Channels; im.Channels != 1 && im.Channels != 3 || len(im.Pix) != n {
		return fmt.Errorf("vision: the image is %dx%d with %d channels and %d samples in Pix; want 1 channel or 3, and "+
			"Width*Height*Channels samples (FromStd makes an Image of any image.Image)", im.Width, im.Height, im.Channels,
			len(im.Pix))
	}
	if n := p.Len(im); len(dst) != n {
		return fmt.Errorf("vision: process a %v image into %d values: want %d", im, len(dst), n)
	}
	out := im.RGB()
	if p.o.Gray {
		out = im.Gray()
	}
	if p.o.Mirror {
		if out == im {
			out = im.Clone()
		}
		out.Mirror()
	}
	if height, width := p.resized(im.Height, im.Width); height != im.Height || width != im.Width {
		var err error
		if out, err = out.Resized(width, height, p.o.Filter); err != nil {
			return err
		}
	}
	if p.o.CropWidth > 0 {
		var err error
		if out, err = out.centerCrop(p.o.CropHeight, p.o.CropWidth); err != nil {
			return err
		}
	}
	if p.o.PadWidth > 0 {
		return p.padded(dst, out)
	}
	return p.n.Normalize(dst, out)
}

// padded normalizes im and fills it up with zeros.
func (p *Processor) padded(dst []float32, im *Image) error {
	if im.Height > p.o.PadHeight || im.Width > p.o.PadWidth {
		return fmt.Errorf("vision: process: the image has %dx%d pixels after resizing; want at most %dx%d, to which it is "+
			"filled up", im.Width, im.Height, p.o.PadWidth, p.o.PadHeight)
	}
	content := make([]float32, len(im.Pix))
	if err := p.n.Normalize(content, im); err != nil {
		return err
	}
	clear(dst)
	for row := range im.Channels * im.Height {
		c, y := row/im.Height, row%im.Height
		copy(dst[(c*p.o.PadHeight+y)*p.o.PadWidth:], content[row*im.Width:][:im.Width])
	}
	return nil
}

// centerCrop cuts out the center like center_crop of transformers. If the center does not fall on
// whole pixels, it is elsewhere than with torchvision's CenterCrop.
func (im *Image) centerCrop(height, width int) (*Image, error) {
	around := func(have, want int) (before, after int) {
		if missing := want - have; missing >= 0 {
			before = (missing + 1) / 2
		} else {
			before = -(-missing / 2)
		}
		return before, want - have - before
	}
	top, bottom := around(im.Height, height)
	left, right := around(im.Width, width)
	return im.Pad(left, top, right, bottom, 0)
}

// reduced is what ReduceLabels makes of class 0: the label that segmentation usually ignores.
const reduced = 255

// ProcessLabels prepares the label map of an image like the image: mirror, resize to the same size,
// but from the nearest pixel, and reduce. It does not change m. A processor that crops is an error,
// and so are classes above 255 with ReduceLabels.
func (p *Processor) ProcessLabels(m *LabelMap) (*LabelMap, error) {
	if p.o.CropWidth > 0 {
		return nil, fmt.Errorf("vision: label map with a processor that cuts out %dx%d: want one that only resizes",
			p.o.CropWidth, p.o.CropHeight)
	}
	if p.o.Mirror {
		m = m.Clone()
		m.Mirror()
	}
	height, width := p.resized(m.Height, m.Width)
	out, err := m.Resized(width, height)
	if err != nil {
		return nil, err
	}
	if !p.o.ReduceLabels {
		return out, nil
	}
	for i, class := range out.Pix {
		switch {
		case class > reduced:
			return nil, fmt.Errorf("vision: a label map with class %d and ReduceLabels: want classes up to %d, since %d then "+
				"stands for none", class, reduced, reduced)
		case class == 0:
			out.Pix[i] = reduced
		case class < reduced:
			out.Pix[i]--
		}
	}
	return out, nil
}
