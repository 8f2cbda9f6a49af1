package vision

import "image"

// ycbcrRows converts a decoded color JPEG as libjpeg does: subsampled chroma is enlarged by a
// triangle filter ("fancy upsampling") instead of being repeated, then converted with libjpeg's
// rounding. Go's own conversion repeats chroma and is off by up to 22 levels at colored edges.
// convert determines whether the rows are RGB or gray.
func ycbcrRows(src *image.YCbCr, convert func(out, y, cb, cr []uint8)) pixelRows {
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
		cw = 0 // a quarter of the columns: libjpeg repeats those too
	}
	if cw == 0 || (src.Rect.Min.X|src.Rect.Min.Y)&1 != 0 { // or a subimage that begins inside a chroma sample
		cb, cr := make([]uint8, w), make([]uint8, w)
		return func(y int, out []uint8) {
			for x := range w {
				i := src.COffset(src.Rect.Min.X+x, src.Rect.Min.Y+y)
				cb[x], cr[x] = src.Cb[i], src.Cr[i]
			}
			convert(out, src.Y[src.YOffset(src.Rect.Min.X, src.Rect.Min.Y+y):][:w], cb, cr)
		}
	}
	yo, co := src.YOffset(src.Rect.Min.X, src.Rect.Min.Y), src.COffset(src.Rect.Min.X, src.Rect.Min.Y)
	cb, cr := make([]uint8, w+1), make([]uint8, w+1)
	sums := make([]int, cw)
	return func(y int, out []uint8) {
		chromaRow(cb, sums, src.Cb[co:], src.CStride, y, cw, ch, w, h)
		chromaRow(cr, sums, src.Cr[co:], src.CStride, y, cw, ch, w, h)
		convert(out, src.Y[yo+y*src.YStride:][:w], cb, cr)
	}
}

// chromaRow computes row y of a chroma plane at full size. Each output is 3/4 of the nearer sample
// and 1/4 of the farther one in each subsampled direction; rounding is as in jdsample.c.
func chromaRow(out []uint8, sums []int, plane []uint8, stride, y, cw, ch, w, h int) {
	if ch == h { // not subsampled vertically
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

// stretch doubles a row: left halves are rounded with lo, right ones with hi, and the result is
// shifted by shift bits (two for the horizontal weights plus those already in the sums). out has
// room for all.
func stretch(out []uint8, sums []int, lo, hi int, shift uint) {
	n := len(sums)
	shift &= 7
	out = out[:2*n]
	out[0], out[2*n-1] = uint8((4*sums[0]+lo)>>shift), uint8((4*sums[n-1]+hi)>>shift)
	for x, right := range sums[1:] {
		left := sums[x]
		pair := out[2*x+1:][:2]
		pair[0], pair[1] = uint8((3*left+right+hi)>>shift), uint8((3*right+left+lo)>>shift)
	}
}

// rgbOfYCC converts pixels to RGB as ycc_rgb_convert of jdcolor.c does.
func rgbOfYCC(out, y, cb, cr []uint8) {
	cb, cr = cb[:len(y)], cr[:len(y)]
	for x, v := range y {
		p := out[3*x:][:3]
		p[0], p[1], p[2] = ycc(v, cb[x], cr[x])
	}
}

// grayOfYCC returns the luma of the RGB pixels, which differs from y, since they were rounded and
// clamped to 8 bits.
func grayOfYCC(out, y, cb, cr []uint8) {
	out, cb, cr = out[:len(y)], cb[:len(y)], cr[:len(y)]
	for x, v := range y {
		out[x] = luma(ycc(v, cb[x], cr[x]))
	}
}

func ycc(y, cb, cr uint8) (r, g, b uint8) {
	const half = 1 << 15
	l, u, v := int32(y), int32(cb)-128, int32(cr)-128
	return clamp8(l + (91881*v+half)>>16), clamp8(l + (-22554*u-46802*v+half)>>16), clamp8(l + (116130*u+half)>>16)
}

func clamp8(v int32) uint8 {
	return uint8(min(max(v, 0), 255))
}
