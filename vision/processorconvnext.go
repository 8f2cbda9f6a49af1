package vision

import (
	"cmp"
	"errors"
	"fmt"
	"math"
)

// convNext is the class whose processors resize in two ways: below warpedFrom pixels they cut a
// square out of a larger image, from there on they do not keep the aspect ratio.
const (
	convNext       = "ConvNext"
	warpedFrom     = 384
	defaultCropPct = 224 / 256.
)

// spellOut replaces the size of a ConvNextImageProcessor by the steps that it stands for.
func (f *processorFile) spellOut() error {
	if !is(f.DoResize) {
		return nil
	}
	edge := max(f.Size["shortest_edge"], f.Size[""])
	switch {
	case len(f.Size) != 1 || edge < 1:
		return fmt.Errorf("size is %v; want shortest_edge alone, of at least 1", map[string]int(f.Size))
	case edge >= warpedFrom:
		f.Size = square(edge)
		return nil
	case is(f.DoCenterCrop):
		return fmt.Errorf("do_center_crop is true; want false: with a shortest_edge below %d, a square is cut out anyway",
			warpedFrom)
	case f.CropPct == nil:
		return errors.New("do_resize is true, but crop_pct is null; want a number")
	case !(*f.CropPct > 0) || float64(edge) / *f.CropPct > maxSide:
		return fmt.Errorf("crop_pct is %g; want a number above 0, for which sides have at most %d pixels", *f.CropPct,
			maxSide)
	}
	f.DoCenterCrop, f.CropSize = new(true), square(edge)
	f.Size = processorSize{"shortest_edge": int(float64(edge) / *f.CropPct)}
	return nil
}

// shortestEdge returns the settings with which a ConvNextImageProcessor resizes and crops as the
// options say. If it cannot, ok is false.
func (c ProcessorConfig) shortestEdge() (edge int, cropPct float64, ok bool) {
	o := c.ProcessorOptions
	edge, cropPct = o.Width, cmp.Or(c.CropPct, defaultCropPct)
	if o.ShortestEdge == 0 {
		return edge, cropPct, edge == 0 || edge == o.Height && edge >= warpedFrom
	}
	edge = o.CropWidth
	before := func() int { return int(float64(edge) / cropPct) }
	if before() != o.ShortestEdge {
		if cropPct = float64(edge) / float64(o.ShortestEdge); before() != o.ShortestEdge { // rounded down
			cropPct = math.Nextafter(cropPct, 0)
		}
	}
	return edge, cropPct, edge > 0 && edge == o.CropHeight && edge < warpedFrom
}
