package vision

import (
	"bytes"
	"errors"
	"image"

	"golang.org/x/image/webp"
)

var errAnimated = errors.New("it is an animation; want a still image")

// decodeWebP decodes a still WebP image. Lossy images have limited-range luma and chroma, like
// video, which image.YCbCr does not support: they are converted here as libwebp does.
func decodeWebP(raw []byte) (image.Image, error) {
	if isAnimatedWebP(raw) {
		return nil, errAnimated
	}
	src, err := webp.Decode(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	switch src := src.(type) {
	case *image.YCbCr:
		return studioRGB(src), nil
	case *image.NYCbCrA:
		out := studioRGB(&src.YCbCr)
		for y := range out.Rect.Dy() {
			for x, a := range src.A[y*src.AStride:][:out.Rect.Dx()] {
				out.Pix[y*out.Stride+4*x+3] = a
			}
		}
		return out, nil
	}
	return src, nil
}

// isAnimatedWebP checks the flags of the chunk VP8X, which comes first if there is one.
func isAnimatedWebP(raw []byte) bool {
	const animation = 1 << 1
	return len(raw) > 20 && string(raw[12:16]) == "VP8X" && raw[20]&animation != 0
}

// studioRGB converts with libwebp's "fancy" upsampling (src/dsp/upsampling.c and yuv.h): each
// chroma value is 9/16 of the nearest of four samples, 3/16 of each of the next two and 1/16 of the
// farthest.
func studioRGB(src *image.YCbCr) *image.NRGBA {
	w, h := src.Rect.Dx(), src.Rect.Dy()
	out := image.NewNRGBA(image.Rect(0, 0, w, h))
	cw, ch := (w+1)/2, (h+1)/2
	us, vs := make([]uint8, 2*cw), make([]uint8, 2*cw)
	for y := range h {
		near, far := y/2, y/2-1
		if y%2 == 1 {
			far = y/2 + 1
		}
		far = min(max(far, 0), ch-1)
		upsample(us, src.Cb[near*src.CStride:][:cw], src.Cb[far*src.CStride:][:cw])
		upsample(vs, src.Cr[near*src.CStride:][:cw], src.Cr[far*src.CStride:][:cw])
		row := out.Pix[y*out.Stride:][:4*w]
		for x, l := range src.Y[y*src.YStride:][:w] {
			luma, u, v := int32(l)*19077>>8, int32(us[x]), int32(vs[x])
			p := row[4*x:][:4]
			p[0] = clamp8((luma + v*26149>>8 - 14234) >> 6)
			p[1] = clamp8((luma - u*6419>>8 - v*13320>>8 + 8708) >> 6)
			p[2] = clamp8((luma + u*33050>>8 - 17685) >> 6)
			p[3] = 255
		}
	}
	return out
}

// upsample makes two values from each sample of the chroma row near; far is the adjacent row above
// or below.
func upsample(out, near, far []uint8) {
	last := len(near) - 1
	out[0] = uint8((3*int(near[0]) + int(far[0]) + 2) >> 2)
	out[2*last+1] = uint8((3*int(near[last]) + int(far[last]) + 2) >> 2)
	for x := range last {
		nl, nr, fl, fr := int(near[x]), int(near[x+1]), int(far[x]), int(far[x+1])
		sum := nl + nr + fl + fr + 8
		out[2*x+1] = uint8(((sum+2*(nr+fl))>>3 + nl) >> 1)
		out[2*x+2] = uint8(((sum+2*(nl+fr))>>3 + nr) >> 1)
	}
}
