package vision

import (
	"fmt"
	"math"
)

// Point is a position in an image. Pixel centers are at half-integers: the upper left pixel covers
// (0,0) to (1,1).
type Point struct{ X, Y float64 }

// Quad is four corners in the order upper left, upper right, lower right, lower left.
type Quad [4]Point

// RectQuad returns the corners of an upright rectangle.
func RectQuad(x0, y0, x1, y1 float64) Quad {
	return Quad{{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}}
}

// WarpPerspective draws the part of src inside the quad from into the quad to of dst, as a camera
// sees a flat sign from the side. Pixels of dst that fall outside src keep their value, so a
// background is preserved; bilinear weights have 8 bits. It returns an error if no perspective
// view has these corners or if channels differ.
func WarpPerspective(dst *Image, to Quad, src *Image, from Quad) error {
	if dst.Channels != src.Channels {
		return fmt.Errorf("vision: WarpPerspective of a %v image into a %v one: want equal channels", src, dst)
	}
	if src.Width == 0 || src.Height == 0 || dst.Width == 0 || dst.Height == 0 {
		return fmt.Errorf("vision: WarpPerspective of a %v image into a %v one: want sides of at least 1", src, dst)
	}
	h, ok := homography(to, from)
	if !ok {
		return fmt.Errorf("vision: WarpPerspective from %v to %v: want two convex quads without three corners on a line",
			from, to)
	}
	right, bottom := float64(src.Width)-0.5, float64(src.Height)-0.5
	x0, y0, x1, y1 := bounds(to, dst.Width, dst.Height)
	for y := y0; y < y1; y++ {
		fy := float64(y) + 0.5
		// Position and denominator are linear along a row: three additions a pixel.
		nx := h[1]*fy + h[2] + h[0]*(float64(x0)+0.5)
		ny := h[4]*fy + h[5] + h[3]*(float64(x0)+0.5)
		nz := h[7]*fy + h[8] + h[6]*(float64(x0)+0.5)
		row := dst.Row(y)
		for x := x0; x < x1; x++ {
			if nz > 0 {
				z := 1 / nz
				sx, sy := nx*z, ny*z
				if src.Channels == 1 && sx >= 0.5 && sy >= 0.5 && sx < right && sy < bottom {
					row[x] = inside(src, int(sx*256)-128, int(sy*256)-128)
				} else {
					sample(row[x*dst.Channels:], src, sx, sy)
				}
			}
			nx += h[0]
			ny += h[3]
			nz += h[6]
		}
	}
	return nil
}

// inside is sample for gray pixels of src that have all four neighbors, which nearly all have. x
// and y are in units of 1/256 pixel from the center of the first pixel.
func inside(src *Image, x, y int) uint8 {
	wx, wy := x&255, y&255
	i := y>>8*src.Width + x>>8
	upper, lower := src.Pix[i:i+2:i+2], src.Pix[i+src.Width:i+src.Width+2:i+src.Width+2]
	a, d := int(upper[0]), int(lower[0])
	top, bottom := a<<8+(int(upper[1])-a)*wx, d<<8+(int(lower[1])-d)*wx
	return uint8((top<<8 + (bottom-top)*wy + 1<<15) >> 16)
}

// sample writes the bilinear value of src at (x, y) unless it is outside.
func sample(out []uint8, src *Image, x, y float64) {
	if !(x >= 0 && y >= 0 && x < float64(src.Width) && y < float64(src.Height)) {
		return
	}
	fx, fy := int(x*256)-128, int(y*256)-128
	ix, iy := fx>>8, fy>>8
	wx, wy := fx&255, fy&255
	c, stride := src.Channels, src.Width*src.Channels
	i, right, down := iy*stride+ix*c, c, stride
	if ix < 0 { // the outer half pixel repeats the edge
		i, wx = i+c, 0
		ix = 0
	}
	if iy < 0 {
		i, wy = i+stride, 0
		iy = 0
	}
	if ix+1 >= src.Width {
		right = 0
	}
	if iy+1 >= src.Height {
		down = 0
	}
	p := src.Pix
	for k := range c {
		a, b := int(p[i+k]), int(p[i+right+k])
		d, e := int(p[i+down+k]), int(p[i+down+right+k])
		top, bottom := a<<8+(b-a)*wx, d<<8+(e-d)*wx
		out[k] = uint8((top<<8 + (bottom-top)*wy + 1<<15) >> 16)
	}
}

// bounds returns the range of pixels that a quad can touch, clipped to a width x height image.
func bounds(q Quad, width, height int) (x0, y0, x1, y1 int) {
	lo, hi := q[0], q[0]
	for _, p := range q[1:] {
		lo.X, lo.Y = min(lo.X, p.X), min(lo.Y, p.Y)
		hi.X, hi.Y = max(hi.X, p.X), max(hi.Y, p.Y)
	}
	clamp := func(v float64, limit int) int { return int(max(0, min(v, float64(limit)))) }
	return clamp(math.Floor(lo.X), width), clamp(math.Floor(lo.Y), height), clamp(math.Ceil(hi.X), width),
		clamp(math.Ceil(hi.Y), height)
}

// homography returns the 3x3 matrix, by rows, that takes the corners of a to those of b. It goes by
// way of the unit square (Heckbert 1989): b's map times the adjugate of a's.
func homography(a, b Quad) (h [9]float64, ok bool) {
	if !convex(a) || !convex(b) {
		return h, false
	}
	p, q := squareTo(a), squareTo(b)
	inverse := [9]float64{
		p[4]*p[8] - p[5]*p[7], p[2]*p[7] - p[1]*p[8], p[1]*p[5] - p[2]*p[4],
		p[5]*p[6] - p[3]*p[8], p[0]*p[8] - p[2]*p[6], p[2]*p[3] - p[0]*p[5],
		p[3]*p[7] - p[4]*p[6], p[1]*p[6] - p[0]*p[7], p[0]*p[4] - p[1]*p[3],
	}
	for i := range 3 {
		for j := range 3 {
			for k := range 3 {
				h[3*i+j] += q[3*i+k] * inverse[3*k+j]
			}
		}
	}
	// The sign is arbitrary; make the denominator positive inside a, where the image is in front of
	// the camera.
	cx, cy := (a[0].X+a[1].X+a[2].X+a[3].X)/4, (a[0].Y+a[1].Y+a[2].Y+a[3].Y)/4
	if h[6]*cx+h[7]*cy+h[8] < 0 {
		for i := range h {
			h[i] = -h[i]
		}
	}
	return h, true
}

// squareTo returns the map from the corners of the unit square to those of q.
func squareTo(q Quad) [9]float64 {
	dx1, dx2, dx3 := q[1].X-q[2].X, q[3].X-q[2].X, q[0].X-q[1].X+q[2].X-q[3].X
	dy1, dy2, dy3 := q[1].Y-q[2].Y, q[3].Y-q[2].Y, q[0].Y-q[1].Y+q[2].Y-q[3].Y
	det := dx1*dy2 - dx2*dy1
	g, h := (dx3*dy2-dx2*dy3)/det, (dx1*dy3-dx3*dy1)/det
	return [9]float64{
		q[1].X - q[0].X + g*q[1].X, q[3].X - q[0].X + h*q[3].X, q[0].X,
		q[1].Y - q[0].Y + g*q[1].Y, q[3].Y - q[0].Y + h*q[3].Y, q[0].Y,
		g, h, 1,
	}
}

// convex reports whether every corner turns the same way; false for NaN and infinity too.
func convex(q Quad) bool {
	var signs int
	for i := range 4 {
		a, b, c := q[i], q[(i+1)%4], q[(i+2)%4]
		turn := (b.X-a.X)*(c.Y-b.Y) - (b.Y-a.Y)*(c.X-b.X)
		switch {
		case turn > 1e-9 && turn < 1e18:
			signs++
		case turn < -1e-9 && turn > -1e18:
			signs--
		}
	}
	return signs == 4 || signs == -4
}
