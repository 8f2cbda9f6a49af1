package vision

import (
	"fmt"
	"image"
	"image/color"
)

// Image is an image of packed 8-bit samples: Channels values per pixel, rows from the top without
// padding. One channel is gray (Pillow's mode "L"), three are red, green, blue (mode "RGB").
type Image struct {
	Pix                     []uint8 // len is Width*Height*Channels
	Width, Height, Channels int
}

// NewImage returns a black image. It panics if a side is negative or channels is neither 1 nor 3.
func NewImage(width, height, channels int) *Image {
	if width < 0 || height < 0 || (channels != 1 && channels != 3) {
		panic(fmt.Sprintf("vision: NewImage(%d, %d, %d): want sides of at least 0 and 1 or 3 channels", width, height,
			channels))
	}
	return &Image{make([]uint8, width*height*channels), width, height, channels}
}

// String describes the image, not its pixels: "128x32 gray".
func (im *Image) String() string {
	kind := "RGB"
	if im.Channels == 1 {
		kind = "grey"
	}
	return fmt.Sprintf("%dx%d %s", im.Width, im.Height, kind)
}

// Clone returns a copy that shares no memory.
func (im *Image) Clone() *Image {
	c := *im
	c.Pix = append([]uint8(nil), im.Pix...)
	return &c
}

// Row returns the samples of row y; writing to it writes to the image.
func (im *Image) Row(y int) []uint8 {
	n := im.Width * im.Channels
	return im.Pix[y*n : y*n+n : y*n+n]
}

// Fill sets every sample to v.
func (im *Image) Fill(v uint8) {
	for i := range im.Pix {
		im.Pix[i] = v
	}
}

// Gray returns the image in one channel. That is im itself if it has one channel, and otherwise
// Pillow's convert("L"), which is ITU-R 601 luma in 16.16 fixed point, rounded.
func (im *Image) Gray() *Image {
	if im.Channels == 1 {
		return im
	}
	g := NewImage(im.Width, im.Height, 1)
	grayRow(g.Pix, im.Pix)
	return g
}

// grayRow converts RGB pixels to gray.
func grayRow(out, rgb []uint8) {
	for i := range out {
		p := rgb[3*i : 3*i+3]
		out[i] = luma(p[0], p[1], p[2])
	}
}

// luma is the macro L24 of Pillow's Convert.c, rounded.
func luma(r, g, b uint8) uint8 {
	return uint8((uint32(r)*19595 + uint32(g)*38470 + uint32(b)*7471 + 0x8000) >> 16)
}

// RGB returns the image in three channels; that is im itself if it has three.
func (im *Image) RGB() *Image {
	if im.Channels == 3 {
		return im
	}
	c := NewImage(im.Width, im.Height, 3)
	for i, v := range im.Pix {
		c.Pix[3*i], c.Pix[3*i+1], c.Pix[3*i+2] = v, v, v
	}
	return c
}

// Mirror flips the image left to right, in place. Hezar's readers of Persian text mirror
// images so that the writing runs in the direction of the time steps of CTC.
func (im *Image) Mirror() {
	c := im.Channels
	for y := range im.Height {
		row := im.Row(y)
		for i, j := 0, len(row)-c; i < j; i, j = i+c, j-c {
			for k := range c {
				row[i+k], row[j+k] = row[j+k], row[i+k]
			}
		}
	}
}

// Flip turns the image upside down, in place.
func (im *Image) Flip() {
	for y, z := 0, im.Height-1; y < z; y, z = y+1, z-1 {
		a, b := im.Row(y), im.Row(z)
		for i := range a {
			a[i], b[i] = b[i], a[i]
		}
	}
}

// Pad returns a copy with left, top, right and bottom additional columns and rows of the value
// fill; negative numbers crop instead. It returns an error if nothing would be left.
func (im *Image) Pad(left, top, right, bottom int, fill uint8) (*Image, error) {
	w, h := im.Width+left+right, im.Height+top+bottom
	if w <= 0 || h <= 0 {
		return nil, fmt.Errorf("vision: Pad(%d, %d, %d, %d) of a %v image leaves %dx%d pixels: want at least 1x1",
			left, top, right, bottom, im, w, h)
	}
	out := NewImage(w, h, im.Channels)
	out.Fill(fill)
	c := im.Channels
	x0, x1 := max(left, 0), min(left+im.Width, w) // columns of out that come from im
	for y := max(top, 0); y < min(top+im.Height, h) && x0 < x1; y++ {
		copy(out.Row(y)[x0*c:x1*c], im.Row(y - top)[(x0-left)*c:])
	}
	return out, nil
}

// Std returns the image as an image of the standard library. A gray image shares its memory
// with im.
func (im *Image) Std() image.Image {
	r := image.Rect(0, 0, im.Width, im.Height)
	if im.Channels == 1 {
		return &image.Gray{Pix: im.Pix, Stride: im.Width, Rect: r}
	}
	out := image.NewNRGBA(r)
	for i := range im.Width * im.Height {
		out.Pix[4*i], out.Pix[4*i+1], out.Pix[4*i+2], out.Pix[4*i+3] = im.Pix[3*i], im.Pix[3*i+1], im.Pix[3*i+2], 255
	}
	return out
}

// FromStd converts an image of the standard library as Pillow's convert("RGB") does: alpha is
// dropped rather than blended, a palette is looked up, and 16-bit color keeps its high byte. Gray
// images become one channel. 16-bit gray keeps its high byte as well, whereas Pillow 13 turns
// all but the darkest 256 of 65,536 shades white.
func FromStd(src image.Image) *Image {
	if im := fromGray(src); im != nil {
		return im
	}
	row := rowsOf(src)
	im := NewImage(src.Bounds().Dx(), src.Bounds().Dy(), 3)
	for y := range im.Height {
		row(y, im.Row(y))
	}
	return im
}

// grayFromStd is FromStd(src).Gray() without the intermediate image.
func grayFromStd(src image.Image) *Image {
	if im := fromGray(src); im != nil {
		return im
	}
	im := NewImage(src.Bounds().Dx(), src.Bounds().Dy(), 1)
	if ycc, ok := src.(*image.YCbCr); ok {
		row := ycbcrRows(ycc, grayOfYCC)
		for y := range im.Height {
			row(y, im.Row(y))
		}
		return im
	}
	row := rowsOf(src)
	rgb := make([]uint8, 3*im.Width)
	for y := range im.Height {
		row(y, rgb)
		grayRow(im.Row(y), rgb)
	}
	return im
}

// fromGray is FromStd for gray images; it returns nil for others.
func fromGray(src image.Image) *Image {
	w, h := src.Bounds().Dx(), src.Bounds().Dy()
	switch src := src.(type) {
	case *image.Gray:
		im := NewImage(w, h, 1)
		for y := range h {
			copy(im.Row(y), src.Pix[y*src.Stride:y*src.Stride+w])
		}
		return im
	case *image.Gray16:
		im := NewImage(w, h, 1)
		for y := range h {
			for x := range w {
				im.Pix[y*w+x] = src.Pix[y*src.Stride+2*x]
			}
		}
		return im
	}
	return nil
}

// pixelRows writes the pixels of row y of an image to out. It is called once for each row, from the
// top down.
type pixelRows func(y int, out []uint8)

// rowsOf returns the rows of an image in three channels.
func rowsOf(src image.Image) pixelRows {
	b := src.Bounds()
	switch src := src.(type) {
	case *image.YCbCr:
		return ycbcrRows(src, rgbOfYCC)
	case *image.RGBA:
		if src.Opaque() {
			return strided(src.Pix, src.Stride, b.Dx(), 4, 1)
		}
	case *image.NRGBA:
		return strided(src.Pix, src.Stride, b.Dx(), 4, 1)
	case *image.NRGBA64:
		return strided(src.Pix, src.Stride, b.Dx(), 8, 2)
	case *image.RGBA64:
		if src.Opaque() {
			return strided(src.Pix, src.Stride, b.Dx(), 8, 2)
		}
	case *image.Paletted:
		return palettedRows(src)
	}
	return func(y int, out []uint8) {
		for x := range b.Dx() {
			c := color.NRGBAModel.Convert(src.At(b.Min.X+x, b.Min.Y+y)).(color.NRGBA)
			out[3*x], out[3*x+1], out[3*x+2] = c.R, c.G, c.B
		}
	}
}

// strided returns the rows of interleaved pixels: the first three samples of each, and of a 16-bit
// sample the first byte, which is the high one.
func strided(pix []uint8, stride, w, pixel, sample int) pixelRows {
	return func(y int, out []uint8) {
		in := pix[y*stride:]
		for x := range w {
			p := in[x*pixel:]
			out[3*x], out[3*x+1], out[3*x+2] = p[0], p[sample], p[2*sample]
		}
	}
}

func palettedRows(src *image.Paletted) pixelRows {
	var table [256][3]uint8 // an index past the palette is black, as in Pillow
	for i, c := range src.Palette {
		n := color.NRGBAModel.Convert(c).(color.NRGBA)
		if full, ok := c.(color.NRGBA); ok {
			n = full // the conversion would lose the color of transparent entries
		}
		table[i] = [3]uint8{n.R, n.G, n.B}
	}
	w := src.Rect.Dx()
	return func(y int, out []uint8) {
		for x, index := range src.Pix[y*src.Stride:][:w] {
			c := table[index]
			out[3*x], out[3*x+1], out[3*x+2] = c[0], c[1], c[2]
		}
	}
}
