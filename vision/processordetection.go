package vision

import (
	"errors"
	"fmt"
	"math"
)

// The classes whose processors prepare images for detectors. They keep the aspect ratio within a
// longest edge, and pad batches.
const (
	yolos = "Yolos"
	detr  = "Detr"
	// yolosMultiple is what YOLOS rounds the sides of images down to.
	yolosMultiple = 16
	// longestEdge is that of files that give the shortest edge as a number, without max_size.
	longestEdge = 1333
)

// within returns the height and width of an image whose shorter side becomes edge, or less if the
// longer one would exceed longest: get_size_with_aspect_ratio of transformers or, with a multiple,
// YOLOS's own.
func within(height, width, edge, longest, multiple int) (int, int) {
	short, long := float64(min(height, width)), float64(max(height, width))
	exact := float64(edge) // the length of the shorter side before it is rounded
	if long/short*float64(edge) > float64(longest) {
		exact = float64(longest) * short / long
		edge = int(math.RoundToEven(exact))
	}
	other := func(a, b int) int { return int(float64(exact*float64(a)) / float64(b)) }
	same := height <= width && height == edge || width <= height && width == edge
	switch h, w := height, width; {
	case multiple > 0 && w < h:
		height, width = other(h, w), edge
	case same:
	case w < h:
		height, width = other(h, w), edge
	default:
		height, width = edge, other(w, h)
	}
	if multiple > 0 {
		height, width = height-height%multiple, width-width%multiple
	}
	return height, width
}

// fitting returns the height and width of the largest image of the same aspect ratio that fits:
// get_image_size_for_max_height_width of transformers.
func fitting(height, width, maxHeight, maxWidth int) (int, int) {
	scale := min(float64(maxHeight)/float64(height), float64(maxWidth)/float64(width))
	return int(float64(height) * scale), int(float64(width) * scale)
}

// detectionOptions returns the options of the file of a detector's class.
func (f processorFile) detectionOptions(class string) (o ProcessorOptions, err error) {
	size, resize := f.Size, f.DoResize
	f.Size, f.DoResize, f.DoCenterCrop = nil, nil, nil
	if o, err = f.options(false); err != nil {
		return o, err
	}
	if is(resize) {
		if f.Resample == nil {
			return o, errors.New("do_resize is true, but resample is null; want numbers")
		}
		if o.Filter, err = FilterByNumber(*f.Resample); err != nil {
			return o, err
		}
		if number := size[""]; number > 0 {
			size = processorSize{"shortest_edge": number, "longest_edge": longestEdge}
			if f.MaxSize != nil {
				size["longest_edge"] = *f.MaxSize
			}
		}
		switch {
		case len(size) == 2 && size["shortest_edge"] > 0 && size["longest_edge"] > 0:
			o.ShortestEdge, o.LongestEdge = size["shortest_edge"], size["longest_edge"]
			if class == yolos {
				o.Multiple = yolosMultiple
			}
		case len(size) == 2 && size["max_height"] > 0 && size["max_width"] > 0:
			o.MaxHeight, o.MaxWidth = size["max_height"], size["max_width"]
		default:
			const or = "shortest_edge and longest_edge, or max_height and max_width, or "
			if o.Height, o.Width, err = size.sides("size", or); err != nil {
				return o, err
			}
		}
	}
	if is(f.DoPad) && f.PadSize != nil {
		if o.PadHeight, o.PadWidth, err = f.PadSize.sides("pad_size", ""); err != nil {
			return o, err
		}
	}
	_, err = NewProcessor(o)
	return o, err
}

// takeAnnotationSettings removes what a file says of annotations, and refuses what is not
// supported.
func (c *ProcessorConfig) takeAnnotationSettings() error {
	for key, wanted := range map[string]string{"format": `"coco_detection"`, "do_convert_annotations": "true"} {
		if found := string(c.Extra[key]); found != "" && found != "null" && found != wanted {
			return fmt.Errorf("%s is %s; want %s", key, found, wanted)
		}
	}
	return nil
}

// detector returns the class that can do what the options say, and whether there is one. Files of
// other classes have no place for what only these can do.
func (c ProcessorConfig) detector() (class string, ok bool) {
	o := c.ProcessorOptions
	only := o.LongestEdge > 0 || o.MaxHeight > 0 || o.PadHeight > 0 || o.Multiple > 0
	class = detr
	if c.Type == yolos+imageProcessor && o.LongestEdge == 0 || o.Multiple == yolosMultiple && o.LongestEdge > 0 {
		class = yolos
	}
	possible := o.CropWidth == 0 && (o.ShortestEdge == 0 || o.LongestEdge > 0) &&
		(o.Multiple == 0 || o.Multiple == yolosMultiple && o.LongestEdge > 0)
	return class, possible && (only || c.Type == yolos+imageProcessor || c.Type == detr+imageProcessor)
}
