package preprocessors

import (
	"fmt"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/vision"
)

// ImageProcessorConfig is image_processor_config.yaml. A nil or zero field is a step that is left
// out.
type ImageProcessorConfig struct {
	Mean, Std []float64 // one for each channel, or one for all; only both together have an effect
	Rescale   *float64  // factor of the samples
	Resample  *int      // Pillow's number of a filter; nil: 3, bicubic
	Width     int       // with Height the size
	Height    int
	Mirror    bool // left to right, before resizing
	GrayScale bool
}

// ImageProcessor is Hezar's image processor: grey, mirror, resize, rescale, normalise, channels
// first, in this order. It does not change and may be used by several goroutines.
//
// With Mean and Std but no Rescale, Hezar computes in bytes that wrap round; so does this one,
// since a model that was trained so needs it. One trap of Hezar's is not repeated: it takes a
// picture of up to three rows for one whose channels come first.
type ImageProcessor struct {
	Config    ImageProcessorConfig
	processor *vision.Processor
}

// NewImageProcessor checks a config.
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
	if err != nil {
		return nil, fmt.Errorf("preprocessors: image processor: %w", err)
	}
	return &ImageProcessor{c, p}, nil
}

// Shape returns the channels, height and width of what becomes of a picture.
func (p *ImageProcessor) Shape(im *vision.Image) (channels, height, width int) {
	return p.processor.Shape(im)
}

// Process returns the prepared picture, channels first.
func (p *ImageProcessor) Process(im *vision.Image) ([]float32, error) {
	pixels := make([]float32, p.processor.Len(im))
	return pixels, p.processor.Process(pixels, im)
}

// Open reads a picture file, in colour as Hezar does, and prepares it.
func (p *ImageProcessor) Open(path string) (pixels []float32, shape [3]int, err error) {
	im, err := vision.Open(path, vision.DecodeOptions{})
	if err != nil {
		return nil, shape, err
	}
	im = im.RGB()
	c, h, w := p.Shape(im)
	pixels, err = p.Process(im)
	return pixels, [3]int{c, h, w}, err
}

// imageProcessorName is the name in Hezar's registry.
const imageProcessorName = "image_processor"

// Map is the config as the file has it.
func (c ImageProcessorConfig) Map() omegaconf.Map {
	m := omegaconf.Map{{Key: "name", Value: imageProcessorName}, {Key: "config_type", Value: "preprocessor"}}
	if c.Mean != nil {
		m.Set("mean", c.Mean)
	}
	if c.Std != nil {
		m.Set("std", c.Std)
	}
	if c.Rescale != nil {
		m.Set("rescale", *c.Rescale)
	}
	if c.Resample != nil {
		m.Set("resample", *c.Resample)
	}
	if c.Width != 0 || c.Height != 0 {
		m.Set("size", []int{c.Width, c.Height})
	}
	m.Set("mirror", c.Mirror)
	m.Set("gray_scale", c.GrayScale)
	return m
}

// ParseImageProcessor reads a config from the mapping of its file. Keys that Hezar does not know it
// drops, and so does this.
func ParseImageProcessor(m omegaconf.Map) (c ImageProcessorConfig, err error) {
	f := fields{m: m}
	if name, ok := m.Get("name"); ok && name != imageProcessorName {
		return c, fmt.Errorf("preprocessors: name is %v; want %s", name, imageProcessorName)
	}
	c.Mean, c.Std = f.numbers("mean"), f.numbers("std")
	if v := f.numbers("rescale"); len(v) == 1 {
		c.Rescale = &v[0]
	}
	if v := f.numbers("resample"); len(v) == 1 {
		c.Resample = new(int(v[0]))
	}
	switch size := f.numbers("size"); len(size) {
	case 0:
	case 2:
		c.Width, c.Height = int(size[0]), int(size[1])
	default:
		return c, fmt.Errorf("preprocessors: size has %d numbers; want width and height", len(size))
	}
	c.Mirror, c.GrayScale = f.boolean("mirror"), f.boolean("gray_scale")
	return c, f.err
}

// fields takes values out of a mapping and keeps the first mistake.
type fields struct {
	m   omegaconf.Map
	err error
}

func (f *fields) wrong(key string, v any, want string) {
	if f.err == nil {
		f.err = fmt.Errorf("preprocessors: %s is %v; want %s", key, v, want)
	}
}

// numbers returns a number or a list of them.
func (f *fields) numbers(key string) []float64 {
	v, ok := f.m.Get(key)
	if !ok || v == nil {
		return nil
	}
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	numbers := make([]float64, len(list))
	for i, item := range list {
		switch n := item.(type) {
		case int64:
			numbers[i] = float64(n)
		case float64:
			numbers[i] = n
		default:
			f.wrong(key, v, "a number or a list of numbers")
			return nil
		}
	}
	return numbers
}

func (f *fields) boolean(key string) bool {
	v, ok := f.m.Get(key)
	if !ok || v == nil {
		return false
	}
	b, ok := v.(bool)
	if !ok {
		f.wrong(key, v, "true or false")
	}
	return b
}
