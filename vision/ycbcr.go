package vision

import "image"

// ycbcrRows converts a decoded colour JPEG as libjpeg does: chroma that was stored at half size is
// enlarged with a triangle filter ("fancy upsampling") instead of being repeated, then turned into
// RGB with libjpeg's rounding. Go's own conversion repeats and is off by up to 22 levels at
// coloured edges.
func ycbcrRows(src *image.YCbCr) rgbRows {
	w, h := src.Rect.Dx(), src.Rect.Dy()
	cw, ch := w, h
	switch src.SubsampleRatio {
	case image.YCbCrSubsampleRatio422:
		cw = (w + 1) / 2
	case image.YCbCrSubsampleRatio420:
		cw, ch = (w+1)/2, (h+1)/2
	case image.YCbCrSubsampleRatio440:
		ch = (h + 1) / 2
	case image.YCbCrSubsampleRatio444:
	default:
		cw = 0 // a quarter of the columns: libjpeg repeats those, too
	}
	if cw == 0 || (src.Rect.Min.X|src.Rect.Min.Y)&1 != 0 { // or a cut-out that begins inside a chroma sample
		return func(y int, out []uint8) {
			for x := range w {
				i := src.COffset(src.Rect.Min.X+x, src.Rect.Min.Y+y)
				ycc(out[3*x:], src.Y[src.YOffset(src.Rect.Min.X+x, src.Rect.Min.Y+y)], src.Cb[i], src.Cr[i])
			}
		}
	}
	yo, co := src.YOffset(src.Rect.Min.X, src.Rect.Min.Y), src.COffset(src.Rect.Min.X, src.Rect.Min.Y)
	cb, cr := make([]uint8, w+1), make([]uint8, w+1)
	sums := make([]int, cw)
	return func(y int, out []uint8) {
		chromaRow(cb, sums, src.Cb[co:], src.CStride, y, cw, ch, w, h)
		chromaRow(cr, sums, src.Cr[co:], src.CStride, y, cw, ch, w, h)
		luma := src.Y[yo+y*src.YStride:]
		for x := range w {
			ycc(out[3*x:], luma[x], cb[x], cr[x])
		}
	}
}

// chromaRow computes row y of a chroma plane at full size. Each output is 3/4 of the nearer sample
// and 1/4 of the further one in each halved direction; the roundings are those of jdsample.c.
func chromaRow(out []uint8, sums []int, plane []uint8, stride, y, cw, ch, w, h int) {
	if ch == h { // not halved vertically
		near := plane[y*stride:]
		if cw == w {
			copy(out, near[:w])
			return
		}
		for x := range sums {
			sums[x] = int(near[x])
		}
		stretch(out, sums, 1, 2, 2)
		return
	}
	i := y / 2
	other := i - 1
	if y%2 == 1 {
		other = i + 1
	}
	near, far := plane[i*stride:], plane[min(max(other, 0), ch-1)*stride:]
	for x := range sums {
		sums[x] = 3*int(near[x]) + int(far[x])
	}
	if cw == w { // h1v2: the upper row rounds with 1, the lower with 2
		for x, s := range sums {
			out[x] = uint8((s + 1 + y%2) >> 2)
		}
		return
	}
	stretch(out, sums, 8, 7, 4)
}

// stretch doubles a row: left neighbours round with lo, right ones with hi, and the result loses
// shift bits (two for the horizontal weights plus those already in the sums).
func stretch(out []uint8, sums []int, lo, hi, shift int) {
	put := func(i, v int) {
		if i < len(out) {
			out[i] = uint8(v >> shift)
		}
	}
	n := len(sums)
	for x, s := range sums {
		left, right := sums[max(x-1, 0)], sums[min(x+1, n-1)]
		put(2*x, 3*s+left+lo)
		put(2*x+1, 3*s+right+hi)
	}
}

// ycc is ycc_rgb_convert of jdcolor.c.
func ycc(out []uint8, y, cb, cr uint8) {
	const half = 1 << 15
	l, b, r := int32(y), int32(cb)-128, int32(cr)-128
	out[0] = clamp8(l + (91881*r+half)>>16)
	out[1] = clamp8(l + (-22554*b-46802*r+half)>>16)
	out[2] = clamp8(l + (116130*b+half)>>16)
}

func clamp8(v int32) uint8 {
	return uint8(min(max(v, 0), 255))
}
