package preprocessors

import (
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/compat/hezar/internal/configfile"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/vision"
)

// ImageProcessorConfig is image_processor_config.yaml. A nil or zero field skips its step.
type ImageProcessorConfig struct {
	Mean, Std []float64 // one per channel, or one for all; only both together have an effect
	Rescale   *float64  // factor for the values
	Resample  *int      // Pillow's number of a filter; nil: 3, bicubic
	Width     int       // the size, with Height
	Height    int
	Mirror    bool // horizontally, before resizing
	GrayScale bool
}

// ImageProcessor is Hezar's image processor: it converts to grey, mirrors, resizes, rescales,
// normalises and moves channels first, in this order. It is immutable and may be used by several
// goroutines.
//
// With Mean and Std but no Rescale, Hezar computes in bytes that wrap around; so does this
// ImageProcessor, because models trained that way need it. One defect of Hezar is not reproduced:
// it takes pictures of up to three rows for pictures with channels first.
type ImageProcessor struct {
	Config    ImageProcessorConfig
	processor *vision.Processor
	refused   error // why pictures of bytes cannot be normalised with this mean and std; nil: they can
}

// NewImageProcessor makes an ImageProcessor, after checking the config.
func NewImageProcessor(c ImageProcessorConfig) (*ImageProcessor, error) {
	o := vision.ProcessorOptions{Gray: c.GrayScale, Mirror: c.Mirror, Width: c.Width, Height: c.Height}
	if len(c.Mean) > 0 && len(c.Std) > 0 {
		o.Mean, o.Std = c.Mean, c.Std
	}
	if c.Resample != nil {
		filter, err := vision.FilterByNumber(*c.Resample)
		if err != nil {
			return nil, fmt.Errorf("preprocessors: resample: %w", err)
		}
		o.Filter = filter
	}
	switch {
	case c.Rescale != nil && *c.Rescale == 0:
		return nil, fmt.Errorf("preprocessors: rescale is 0, which makes every picture black; leave it out for no " +
			"rescaling")
	case c.Rescale != nil:
		o.Rescale = *c.Rescale
	default:
		o.Wrap8Bit = len(o.Mean) > 0
	}
	p, err := vision.NewProcessor(o)
	var refused error
	if err != nil && o.Wrap8Bit { // pictures of float32 values still can be
		refused = err
		o.Wrap8Bit, o.Mean, o.Std = false, nil, nil
		p, err = vision.NewProcessor(o)
	}
	if err != nil {
		return nil, fmt.Errorf("preprocessors: image processor: %w", err)
	}
	return &ImageProcessor{c, p, refused}, nil
}

// Shape returns the channels, height and width of a picture after processing.
func (p *ImageProcessor) Shape(im *vision.Image) (channels, height, width int) {
	return p.processor.Shape(im)
}

// Process returns the processed picture, channels first.
func (p *ImageProcessor) Process(im *vision.Image) ([]float32, error) {
	if p.refused != nil {
		return nil, fmt.Errorf("preprocessors: image processor: %w", p.refused)
	}
	pixels := make([]float32, p.processor.Len(im))
	return pixels, p.processor.Process(pixels, im)
}

// Read processes a picture, in colour as in Hezar: the path or contents of a file, an image.Image,
// a *vision.Image or [*Floats].
func (p *ImageProcessor) Read(picture any) (pixels []float32, shape [3]int, err error) {
	if f, ok := picture.(*Floats); ok {
		return p.floats(f)
	}
	im, err := vision.From(picture)
	if err != nil {
		return nil, shape, err
	}
	return p.bytes(im.RGB())
}

func (p *ImageProcessor) bytes(im *vision.Image) (pixels []float32, shape [3]int, err error) {
	c, h, w := p.Shape(im)
	pixels, err = p.Process(im)
	return pixels, [3]int{c, h, w}, err
}

// fields returns the keys of the file in Hezar's order.
func (c *ImageProcessorConfig) fields() []configfile.Field {
	return configfile.Fields("name", configfile.Const("image_processor"), "mean", &c.Mean, "std", &c.Std,
		"rescale", &c.Rescale, "resample", &c.Resample, "size", (*size)(c), "mirror", &c.Mirror,
		"gray_scale", &c.GrayScale)
}

// size is the entry for width and height, which may be missing.
type size ImageProcessorConfig

func (s *size) Encode() any {
	if s.Width == 0 && s.Height == 0 {
		return nil
	}
	return []int{s.Width, s.Height}
}

func (s *size) Decode(v any) error {
	list, _ := v.([]any)
	if len(list) != 2 {
		return configfile.Want("width and height")
	}
	return configfile.Decode(omegaconf.Map{{Key: "width", Value: list[0]}, {Key: "height", Value: list[1]}},
		configfile.Fields("width", &s.Width, "height", &s.Height))
}

// Map returns the config as it is in the file.
func (c ImageProcessorConfig) Map() omegaconf.Map {
	return slices.Insert(configfile.Encode(c.fields()), 1, configType)
}

// ParseImageProcessor decodes the mapping in a file. Like Hezar, it ignores unknown keys.
func ParseImageProcessor(m omegaconf.Map) (c ImageProcessorConfig, err error) {
	if err = configfile.Decode(m, c.fields()); err != nil {
		err = fmt.Errorf("preprocessors: %w", err)
	}
	return c, err
}
