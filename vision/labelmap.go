package vision

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"slices"

	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// LabelMap is the class of each pixel of an image, as for semantic segmentation.
type LabelMap struct {
	Pix           []uint16 // rows from the top; len is Width*Height
	Width, Height int
}

// NewLabelMap returns a map whose pixels have class 0. It panics if a side is negative.
func NewLabelMap(width, height int) *LabelMap {
	if width < 0 || height < 0 {
		panic(fmt.Sprintf("vision: NewLabelMap(%d, %d): want sides of at least 0", width, height))
	}
	return &LabelMap{make([]uint16, width*height), width, height}
}

// String describes the map, not its pixels: "128x32 labels".
func (m *LabelMap) String() string { return fmt.Sprintf("%dx%d labels", m.Width, m.Height) }

// Row returns the classes of row y; writing to it writes to the map.
func (m *LabelMap) Row(y int) []uint16 { return m.Pix[y*m.Width : (y+1)*m.Width : (y+1)*m.Width] }

// Clone returns a copy that shares no memory.
func (m *LabelMap) Clone() *LabelMap {
	c := *m
	c.Pix = append([]uint16(nil), m.Pix...)
	return &c
}

// Mirror flips the map left to right, in place.
func (m *LabelMap) Mirror() {
	for y := range m.Height {
		slices.Reverse(m.Row(y))
	}
}

// Flip turns the map upside down, in place.
func (m *LabelMap) Flip() {
	for y, z := 0, m.Height-1; y < z; y, z = y+1, z-1 {
		a, b := m.Row(y), m.Row(z)
		for i := range a {
			a[i], b[i] = b[i], a[i]
		}
	}
}

// Pad returns a copy with left, top, right and bottom additional columns and rows of the class
// fill; negative numbers crop instead. It returns an error if nothing would be left.
func (m *LabelMap) Pad(left, top, right, bottom int, fill uint16) (*LabelMap, error) {
	w, h := m.Width+left+right, m.Height+top+bottom
	if w <= 0 || h <= 0 {
		return nil, fmt.Errorf("vision: Pad(%d, %d, %d, %d) of %v leaves %dx%d pixels: want at least 1x1", left, top, right,
			bottom, m, w, h)
	}
	out := NewLabelMap(w, h)
	x0, x1 := max(left, 0), min(left+m.Width, w) // columns of out that come from m
	for y := range h {
		row := out.Row(y)
		inside := y >= top && y < top+m.Height && x0 < x1
		for x := range row {
			if row[x] = fill; inside && x >= x0 && x < x1 {
				row[x] = m.Pix[(y-top)*m.Width+x-left]
			}
		}
	}
	return out, nil
}

// OpenLabelMap reads a label map from a PNG file, as [DecodeLabelMap] does.
func OpenLabelMap(path string, o DecodeOptions) (*LabelMap, error) {
	f, info, err := regularfile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("vision: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	var raw bytes.Buffer
	if err := readPicture(&raw, f, info.Size(), path, o); err != nil {
		return nil, err
	}
	return DecodeLabelMap(raw.Bytes(), path, o)
}

// DecodeLabelMap decodes a PNG in memory whose pixels are classes: the indices of a palette,
// whatever its colors are, or gray values of 1 to 16 bits. These are the numbers in the file, and
// not shades: in a file of 1 bit, they are 0 and 1. A PNG of colors and files of other formats are
// errors, since their numbers are no classes; name is for errors only.
func DecodeLabelMap(raw []byte, name string, o DecodeOptions) (*LabelMap, error) {
	refuse := func(format, what string) error {
		return &DecodeError{Name: name, Format: format, Kind: ErrUnsupported, detail: what + "; a label map wants a PNG " +
			"with a palette or one gray channel, whose numbers are classes. If colors stand for classes, fill a LabelMap " +
			"with the class of each color of the Image"}
	}
	d := decoderOf(raw)
	if d == nil {
		return nil, unknownFormat(name, raw)
	}
	if d.name != "PNG" {
		return nil, refuse(d.name, "the format keeps colors")
	}
	o.Gray = false
	src, err := decodeStd(raw, name, o)
	if err != nil {
		return nil, err
	}
	m := NewLabelMap(src.Bounds().Dx(), src.Bounds().Dy())
	const depthAt, kindAt = 24, 25 // in the file; its header is there, or it could not be decoded
	switch kind := raw[kindAt]; {
	case kind == pngPalette:
		p := src.(*image.Paletted) //nolint:forcetypeassert // image/png says so
		m.fill(p.Pix, p.Stride, 1, 1)
	case kind == pngGray:
		m.fillGray(src, raw[depthAt])
	default:
		return nil, refuse(d.name, map[byte]string{pngRGB: "its pixels are RGB colors", pngRGBA: "its pixels are RGBA colors",
			pngGrayAlpha: "its gray pixels have alpha"}[kind])
	}
	return m, nil
}

// fillGray takes the classes from a gray PNG with samples of that many bits. image/png spreads
// those of less than 8 over all shades, and gives a file with a transparent shade more channels.
func (m *LabelMap) fillGray(src image.Image, bits byte) {
	switch src := src.(type) {
	case *image.Gray:
		m.fill(src.Pix, src.Stride, 1, 1)
	case *image.NRGBA:
		m.fill(src.Pix, src.Stride, 4, 1)
	case *image.Gray16:
		m.fill(src.Pix, src.Stride, 2, 2)
	case *image.NRGBA64:
		m.fill(src.Pix, src.Stride, 8, 2)
	}
	if bits < 8 {
		for i := range m.Pix {
			m.Pix[i] /= 255 / (1<<bits - 1)
		}
	}
}

// fill takes the first sample of each pixel. A pixel and a sample have that many bytes.
func (m *LabelMap) fill(pix []byte, stride, pixel, sample int) {
	for y := range m.Height {
		in, out := pix[y*stride:], m.Row(y)
		for x := range out {
			if out[x] = uint16(in[x*pixel]); sample == 2 {
				out[x] = binary.BigEndian.Uint16(in[x*pixel:])
			}
		}
	}
}

// Std returns the map as a gray image, of 8 bits if all classes are below 256 and otherwise of 16.
// Encoded as PNG, it can be read by [OpenLabelMap] and by Pillow.
func (m *LabelMap) Std() image.Image {
	r := image.Rect(0, 0, m.Width, m.Height)
	narrow, fits := image.NewGray(r), true
	for i, class := range m.Pix {
		narrow.Pix[i] = uint8(class)
		fits = fits && class < 1<<8
	}
	if fits {
		return narrow
	}
	all := image.NewGray16(r)
	for i, class := range m.Pix {
		binary.BigEndian.PutUint16(all.Pix[2*i:], class)
	}
	return all
}

// Resized returns the map at another size. Each pixel gets the class of the pixel at its center, as
// with [Nearest].
func (m *LabelMap) Resized(width, height int) (*LabelMap, error) {
	if width <= 0 || height <= 0 || m.Width <= 0 || m.Height <= 0 {
		return nil, fmt.Errorf("vision: resize of %v to %dx%d: want sides of at least 1", m, width, height)
	}
	out := NewLabelMap(width, height)
	columns, rows := nearest(m.Width, width), nearest(m.Height, height)
	for y, from := range rows {
		in, row := m.Row(from), out.Row(y)
		for x, column := range columns {
			row[x] = in[column]
		}
	}
	return out, nil
}
