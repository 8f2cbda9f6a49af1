package vision

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ProcessorConfigName is the file that says how transformers prepares images for a model.
const ProcessorConfigName = "preprocessor_config.json"

// ProcessorConfig is preprocessor_config.json of the classes ViTImageProcessor, DeiTImageProcessor,
// CLIPImageProcessor, BitImageProcessor, ConvNextImageProcessor, SegformerImageProcessor,
// SiglipImageProcessor, YolosImageProcessor and DetrImageProcessor of transformers, and of the feature extractors that
// older files name. Settings that a file lacks have the defaults of the class. Its JSON is what
// transformers 5 writes.
//
// transformers 5.17 has two versions of each class: for Pillow and numpy (ViTImageProcessorPil),
// whose results these are, bit for bit, and for torchvision, which resizes and computes differently
// and is used if torchvision is installed. Images with another number of channels than ImageMean
// are converted; transformers fails unless the file has do_convert_rgb.
type ProcessorConfig struct {
	Type string // image_processor_type, such as ViTImageProcessor
	ProcessorOptions
	ConvertRGB bool // do_convert_rgb of the file; kept only to be written back
	// CropPct is crop_pct of a ConvNextImageProcessor, the part of the shorter side that is cut out.
	// It is kept only to be written back, if it fits CropWidth and ShortestEdge.
	CropPct float64

	// Extra holds the other fields of the file, which have no effect. It is written back.
	Extra map[string]json.RawMessage
}

// processorFile holds the fields of the file. A field that is null has no value, even if the class
// has a default.
type processorFile struct {
	DoResize      *bool         `json:"do_resize,omitempty"`
	Size          processorSize `json:"size,omitempty"`
	Resample      *int          `json:"resample,omitempty"`
	DoCenterCrop  *bool         `json:"do_center_crop,omitempty"`
	CropSize      processorSize `json:"crop_size,omitempty"`
	DoRescale     *bool         `json:"do_rescale,omitempty"`
	RescaleFactor *float64      `json:"rescale_factor,omitempty"`
	DoNormalize   *bool         `json:"do_normalize,omitempty"`
	ImageMean     []float64     `json:"image_mean,omitempty"`
	ImageStd      []float64     `json:"image_std,omitempty"`
	DoConvertRGB  *bool         `json:"do_convert_rgb,omitempty"`
	CropPct       *float64      `json:"crop_pct,omitempty"` // of a ConvNextImageProcessor

	DoReduceLabels *bool `json:"do_reduce_labels,omitempty"` // of a SegformerImageProcessor

	// Of a YolosImageProcessor and a DetrImageProcessor. MaxSize is the longest edge in older files.
	DoPad   *bool         `json:"do_pad,omitempty"`
	PadSize processorSize `json:"pad_size,omitempty"`
	MaxSize *int          `json:"max_size,omitempty"`
}

// processorSize holds the sides of a size by name; a single number has the name "".
type processorSize map[string]int

// UnmarshalJSON reads a dictionary, or a number as in older files.
func (s *processorSize) UnmarshalJSON(text []byte) error {
	var side int
	if json.Unmarshal(text, &side) == nil && string(text) != "null" {
		*s = processorSize{"": side}
		return nil
	}
	var sides map[string]*int // transformers writes null for sides that it does not use
	if err := json.Unmarshal(text, &sides); err != nil {
		return errors.New("a size is neither a number nor a dictionary of numbers")
	}
	*s = nil
	if sides != nil {
		*s = processorSize{}
	}
	for name, side := range sides {
		if side != nil {
			(*s)[name] = *side
		}
	}
	return nil
}

// processorClasses lists the classes of transformers that can be read.
var processorClasses = []string{"Bit", "CLIP", convNext, "DeiT", detr, segformer, "Siglip", "ViT", yolos}

// processorDefaults returns the defaults of a class.
func processorDefaults(class string) processorFile {
	f := processorFile{DoResize: new(true), Size: processorSize{"shortest_edge": 224}, Resample: new(3),
		DoCenterCrop: new(true), CropSize: square(224), DoRescale: new(true), RescaleFactor: new(1 / 255.),
		DoNormalize: new(true), ImageMean: []float64{0.48145466, 0.4578275, 0.40821073}, // OPENAI_CLIP_MEAN
		ImageStd: []float64{0.26862954, 0.26130258, 0.27577711}, DoConvertRGB: new(true)}
	switch class {
	case "ViT":
		f.Size, f.Resample, f.DoCenterCrop, f.CropSize = square(224), new(2), nil, nil
	case "DeiT":
		f.Size = square(256)
	case "Siglip":
		f.Size, f.DoCenterCrop, f.CropSize = square(224), nil, nil
	case convNext:
		f.Size, f.DoCenterCrop, f.CropSize = processorSize{"shortest_edge": warpedFrom}, nil, nil
		f.CropPct = new(defaultCropPct)
	case segformer:
		f.Size, f.Resample, f.DoCenterCrop, f.CropSize = square(512), new(2), nil, nil
		f.DoReduceLabels = new(false)
	case yolos, detr:
		f.Size, f.Resample = processorSize{"shortest_edge": 800, "longest_edge": longestEdge}, new(2)
		f.DoCenterCrop, f.CropSize, f.DoPad = nil, nil, new(true)
	}
	switch class {
	case "CLIP", "Bit":
	case segformer, yolos, detr:
		f.ImageMean, f.ImageStd = []float64{0.485, 0.456, 0.406}, []float64{0.229, 0.224, 0.225} // IMAGENET_DEFAULT_*
		f.DoConvertRGB = nil
	default:
		f.ImageMean, f.ImageStd = []float64{0.5, 0.5, 0.5}, []float64{0.5, 0.5, 0.5} // IMAGENET_STANDARD_*
		if class != "Siglip" {
			f.DoConvertRGB = nil
		}
	}
	return f
}

func square(side int) processorSize { return processorSize{"height": side, "width": side} }

// ParseProcessorConfig parses the content of a file. fallback is the type of a file that has none,
// such as ViTImageProcessor. Types and settings that are not supported are errors that name them.
func ParseProcessorConfig(text []byte, fallback string) (c ProcessorConfig, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("vision: %s: %w", ProcessorConfigName, err)
		}
	}()
	if err := json.Unmarshal(text, &c.Extra); err != nil {
		return c, err
	}
	if c.Extra == nil {
		return c, errors.New("want an object, found null")
	}
	if c.Type, err = takeProcessorType(c.Extra, fallback); err != nil {
		return c, err
	}
	class := strings.TrimSuffix(c.Type, imageProcessor)
	if !slices.Contains(processorClasses, class) {
		return c, fmt.Errorf("image_processor_type is %q; want one of %s, each with %s", c.Type,
			strings.Join(processorClasses, ", "), imageProcessor)
	}
	f := processorDefaults(class)
	if err := json.Unmarshal(text, &f); err != nil {
		return c, err
	}
	if class == convNext {
		if err := f.spellOut(); err != nil {
			return c, err
		}
		if delete(c.Extra, "crop_pct"); f.CropPct != nil {
			c.CropPct = *f.CropPct
		}
	}
	c.ConvertRGB = is(f.DoConvertRGB)
	if class == segformer {
		if err := f.onlySegformer(c.Extra); err != nil {
			return c, err
		}
	}
	if class == yolos || class == detr {
		if err := c.takeAnnotationSettings(); err != nil {
			return c, err
		}
		for _, key := range slices.Concat(processorKeys, []string{"pad_size", "max_size"}) {
			delete(c.Extra, key)
		}
		if is(f.DoPad) { // otherwise it is kept only to be written back
			delete(c.Extra, "do_pad")
		}
		c.ProcessorOptions, err = f.detectionOptions(class)
		return c, err
	}
	if pads := string(c.Extra["do_pad"]); pads != "" && pads != "false" && pads != "null" {
		return c, fmt.Errorf("do_pad is %s; want false: images are not padded", pads)
	}
	for _, key := range processorKeys {
		delete(c.Extra, key)
	}
	c.ProcessorOptions, err = f.options(class == "ViT" || class == "DeiT" || class == segformer)
	c.ReduceLabels = class == segformer && is(f.DoReduceLabels)
	return c, err
}

const imageProcessor = "ImageProcessor"

// processorKeys lists the keys of processorFile.
var processorKeys = []string{"do_resize", "size", "resample", "do_center_crop", "crop_size", "do_rescale",
	"rescale_factor", "do_normalize", "image_mean", "image_std", "do_convert_rgb"}

// takeProcessorType removes the type from the fields of a file and returns it. Types for
// torchvision used to end in Fast, and older files name a feature extractor.
func takeProcessorType(d map[string]json.RawMessage, fallback string) (string, error) {
	var name, older string
	for key, to := range map[string]*string{"image_processor_type": &name, "feature_extractor_type": &older} {
		if raw, ok := d[key]; ok {
			if err := json.Unmarshal(raw, to); err != nil {
				return "", fmt.Errorf("%s: %w", key, err)
			}
		}
		delete(d, key)
	}
	name = cmp.Or(name, strings.Replace(older, "FeatureExtractor", imageProcessor, 1), fallback)
	return strings.TrimSuffix(name, "Fast"), nil
}

func is(set *bool) bool { return set != nil && *set }

// options returns the options of the file. If a size is a single number, it is that of both sides
// if squares is set, otherwise of the shorter side.
func (f processorFile) options(squares bool) (o ProcessorOptions, err error) {
	o = ProcessorOptions{Float32: true, Gray: is(f.DoNormalize) && len(f.ImageMean) == 1}
	for _, s := range []struct {
		step, key string
		missing   bool
	}{{"do_resize", "resample", is(f.DoResize) && f.Resample == nil},
		{"do_rescale", "rescale_factor", is(f.DoRescale) && f.RescaleFactor == nil},
		{"do_normalize", "image_mean", is(f.DoNormalize) && f.ImageMean == nil},
		{"do_normalize", "image_std", is(f.DoNormalize) && f.ImageStd == nil}} {
		if s.missing {
			return o, fmt.Errorf("%s is true, but %s is null; want numbers", s.step, s.key)
		}
	}
	if is(f.DoResize) {
		if o.Filter, err = FilterByNumber(*f.Resample); err != nil {
			return o, err
		}
		edge, number := f.Size["shortest_edge"], f.Size[""]
		switch {
		case len(f.Size) == 1 && number > 0 && squares:
			o.Height, o.Width = number, number
		case len(f.Size) == 1 && max(edge, number) > 0:
			o.ShortestEdge = max(edge, number)
		default:
			if o.Height, o.Width, err = f.Size.sides("size", "shortest_edge alone, or "); err != nil {
				return o, err
			}
		}
	}
	if is(f.DoCenterCrop) {
		if number := f.CropSize[""]; len(f.CropSize) == 1 && number > 0 {
			f.CropSize = square(number)
		}
		if o.CropHeight, o.CropWidth, err = f.CropSize.sides("crop_size", ""); err != nil {
			return o, err
		}
	}
	if is(f.DoRescale) {
		o.Rescale = *f.RescaleFactor
	}
	if is(f.DoNormalize) {
		o.Mean, o.Std = f.ImageMean, f.ImageStd
	}
	_, err = NewProcessor(o)
	return o, err
}

// sides returns the height and the width of a size that has exactly these two.
func (s processorSize) sides(key, or string) (height, width int, err error) {
	height, width = s["height"], s["width"]
	if len(s) != 2 || height < 1 || width < 1 {
		return 0, 0, fmt.Errorf("%s is %v; want %sheight and width, of at least 1", key, map[string]int(s), or)
	}
	return height, width, nil
}

// perChannel repeats a number that is for all channels, since a file with a single one is for
// images of one channel.
func (o ProcessorOptions) perChannel(numbers []float64) []float64 {
	if len(numbers) == 1 && !o.Gray {
		return slices.Repeat(numbers, 3)
	}
	return numbers
}

// size returns how images are resized.
func (o ProcessorOptions) size() processorSize {
	switch {
	case o.LongestEdge > 0:
		return processorSize{"shortest_edge": o.ShortestEdge, "longest_edge": o.LongestEdge}
	case o.ShortestEdge > 0:
		return processorSize{"shortest_edge": o.ShortestEdge}
	case o.MaxWidth > 0:
		return processorSize{"max_height": o.MaxHeight, "max_width": o.MaxWidth}
	}
	return processorSize{"height": o.Height, "width": o.Width}
}

// writable returns the class whose file has a place for the options, and whether it is one for
// detectors.
func (c ProcessorConfig) writable() (class string, detects bool, err error) {
	o, class := c.ProcessorOptions, strings.TrimSuffix(c.Type, imageProcessor)
	if o.Mirror || o.Wrap8Bit || o.Gray && len(o.Mean) != 1 {
		return "", false, fmt.Errorf("vision: %s has no place for Mirror, Wrap8Bit, and Gray without one Mean",
			ProcessorConfigName)
	}
	if o.ReduceLabels && class != segformer {
		return "", false, fmt.Errorf("vision: %s of a %s has no place for ReduceLabels; a %s has", ProcessorConfigName,
			c.Type, segformer+imageProcessor)
	}
	if detector, ok := c.detector(); ok {
		return detector, true, nil
	}
	switch {
	case o.LongestEdge+o.MaxHeight+o.PadHeight > 0:
		return "", false, fmt.Errorf("vision: %s has no place for a cut together with LongestEdge, MaxHeight or PadHeight, "+
			"and for a Multiple other than %d", ProcessorConfigName, yolosMultiple)
	case class == yolos || class == detr:
		return "ViT", false, nil
	case class == segformer && o.CropWidth > 0:
		return "", false, errSegformerCrops
	}
	if _, _, ok := c.shortestEdge(); !ok && class == convNext {
		return "ViT", false, nil
	}
	return class, false, nil
}

// MarshalJSON writes the file as transformers 5 does. What a ConvNextImageProcessor cannot do is
// written as a ViTImageProcessor; transformers takes the class from the file, whatever the model is.
// Mirror and Wrap8Bit, Gray without Mean, and ReduceLabels of another class than
// SegformerImageProcessor cannot be written and are an error. Float32 is not written: transformers
// always computes in float32.
func (c ProcessorConfig) MarshalJSON() ([]byte, error) {
	class, detects, err := c.writable()
	if err != nil {
		return nil, err
	}
	c.Type = class + imageProcessor
	o := c.ProcessorOptions
	f := processorFile{DoResize: new(o.Width+o.ShortestEdge+o.MaxWidth > 0), DoCenterCrop: new(o.CropWidth > 0),
		DoRescale: new(o.Rescale != 0), DoNormalize: new(len(o.Mean) > 0), DoConvertRGB: new(c.ConvertRGB),
		ImageMean: o.perChannel(o.Mean), ImageStd: o.perChannel(o.Std)}
	d := processorDefaults(class)
	if !*f.DoCenterCrop && d.DoCenterCrop == nil { // a step that the class does not do by default is omitted
		f.DoCenterCrop = nil
	}
	if !*f.DoConvertRGB && d.DoConvertRGB == nil {
		f.DoConvertRGB = nil
	}
	if *f.DoResize {
		f.Resample = new(slices.Index(filtersByNumber[:], o.Filter))
		f.Size = o.size()
	}
	if detects {
		if c.Extra["do_pad"] == nil || o.PadHeight > 0 {
			f.DoPad = new(true)
		}
		if o.PadHeight > 0 {
			f.PadSize = processorSize{"height": o.PadHeight, "width": o.PadWidth}
		}
	}
	if class == convNext {
		edge, cropPct, _ := c.shortestEdge()
		if f.CropPct = &cropPct; *f.DoResize {
			f.Size = processorSize{"shortest_edge": edge}
		}
		if o.ShortestEdge > 0 {
			f.DoCenterCrop = nil // resizing includes it
		}
	}
	if class == segformer {
		f.DoReduceLabels = &o.ReduceLabels
	}
	if is(f.DoCenterCrop) {
		f.CropSize = processorSize{"height": o.CropHeight, "width": o.CropWidth}
	}
	if *f.DoRescale {
		f.RescaleFactor = &o.Rescale
	}
	text, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(c.Extra)
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	if all["image_processor_type"], err = json.Marshal(c.Type); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}
