// Package specaugment draws the masks of SpecAugment (Park et al., 2019) as transformers does with
// numpy's global generator.
package specaugment

// Spans says how masks are drawn: of which share of an axis, how long, and how many at least.
type Spans struct {
	Share         float64
	Length, Least int64
}

// Draw returns masks for rows of the given width, [rows, width], row by row: _compute_mask_indices
// of transformers. counts are how much of each row may be masked; nil: all.
func (s Spans) Draw(numbers *Numpy, rows, width int64, counts []int64) []bool {
	mask := make([]bool, rows*width)
	rounding := numbers.float64()
	number := func(n int64) int64 {
		masks := max(int64(s.Share*float64(n)/float64(s.Length)+rounding), s.Least)
		if masks*s.Length > width {
			masks = width / s.Length
		}
		return max(min(masks, n-(s.Length-1)), 0)
	}
	most := number(width)
	if most == 0 {
		return mask
	}
	for row := range rows {
		n := width
		if counts != nil {
			n = counts[row]
		}
		starts := numbers.permutation(max(n-(s.Length-1), 0))[:number(n)]
		if int64(len(starts)) < most && len(starts) == 0 {
			starts = []int64{width - 1} // transformers then masks the last place, which is padding
		}
		for _, start := range starts {
			for i := start; i < min(start+s.Length, width); i++ {
				mask[row*width+i] = true
			}
		}
	}
	return mask
}
