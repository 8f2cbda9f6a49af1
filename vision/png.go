package vision

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image/color"
	"sync"

	"github.com/gotrainer/gotrainer/vision/internal/inflate"
)

// decodePNG decodes a PNG of the usual kinds: 8 bits per sample, not interlaced, without tRNS. It
// returns nil for other files and for damaged ones: image/png decodes them, or says what is wrong.
// The pixels are those of image/png.
func decodePNG(raw []byte, o DecodeOptions) *Image {
	var p pngFile
	if !bytes.HasPrefix(raw, []byte(magicPNG)) || !p.parse(raw) ||
		o.refuse(p.width, p.height, p.model(), len(raw), false) != "" {
		return nil
	}
	stride := 1 + p.width*p.samples // the filter of a row, then its pixels
	size := stride * p.height
	const mostRatio = 1032 // the highest compression ratio of deflate
	if size/mostRatio > len(raw) {
		return nil
	}
	rows := rowsPool.Get().(*[]byte) //nolint:forcetypeassert // nothing else is in it
	defer func() {
		if cap(*rows) <= mostKept {
			rowsPool.Put(rows)
		}
	}()
	if len(*rows) < size+inflate.Slack {
		*rows = make([]byte, size+inflate.Slack)
	}
	if inflate.Zlib(*rows, size, p.data, p.packed) != nil {
		return nil
	}
	return p.pixels((*rows)[:size], o.Gray)
}

var rowsPool = sync.Pool{New: func() any { return new([]byte) }}

// Kinds of pixels, as the header of a PNG numbers them.
const (
	pngGray      = 0
	pngRGB       = 2
	pngPalette   = 3
	pngGrayAlpha = 4
	pngRGBA      = 6
)

type pngFile struct {
	width, height int
	kind          byte
	samples       int // of a pixel
	palette       []byte
	data          []byte // compressed: packed bytes, followed by at least inflate.Slack more
	packed        int
}

// parse reads the chunks of a file and checks their checksums and order as image/png does.
func (p *pngFile) parse(raw []byte) bool {
	const header, frame = 13, 12 // frame: length, name and checksum of a chunk
	var pieces int
	last := ""
	for at := len(magicPNG); len(raw)-at >= frame; {
		n := int(binary.BigEndian.Uint32(raw[at:]))
		if n > len(raw)-at-frame {
			return false
		}
		name, content := string(raw[at+4:at+8]), raw[at+8:at+8+n]
		if crc32.ChecksumIEEE(raw[at+4:at+8+n]) != binary.BigEndian.Uint32(raw[at+8+n:]) ||
			(name == "IHDR") != (last == "") {
			return false
		}
		switch name {
		case "IHDR":
			if n != header || !p.header(content) {
				return false
			}
		case "PLTE":
			if p.kind != pngPalette || p.palette != nil || pieces > 0 || n == 0 || n%3 != 0 || n > 3*256 {
				return false
			}
			p.palette = content
		case "tRNS":
			return false
		case "IDAT":
			if pieces > 0 && last != name || p.kind == pngPalette && p.palette == nil {
				return false
			}
			p.piece(raw, content, pieces, at+8)
			pieces++
		case "IEND":
			if pieces > 1 {
				p.data = append(p.data, make([]byte, inflate.Slack)...)
			}
			return n == 0 && pieces > 0
		}
		last = name
		at += frame + n
	}
	return false
}

// piece adds the content of an IDAT chunk, which begins at byte at, after that number of others. A
// single chunk, as in most files, is not copied.
func (p *pngFile) piece(raw, content []byte, others, at int) {
	switch others {
	case 0:
		p.data = raw[at:] // the checksum and the last chunk follow it
	case 1:
		p.data = append(append(make([]byte, 0, len(raw)), p.data[:p.packed]...), content...)
	default:
		p.data = append(p.data, content...)
	}
	p.packed += len(content)
}

func (p *pngFile) header(h []byte) bool {
	const depth, method, filter, interlace = 8, 10, 11, 12
	p.width, p.height = int(int32(binary.BigEndian.Uint32(h))), int(int32(binary.BigEndian.Uint32(h[4:])))
	p.kind = h[9]
	switch p.kind {
	case pngGray, pngPalette:
		p.samples = 1
	case pngGrayAlpha:
		p.samples = 2
	case pngRGB:
		p.samples = 3
	case pngRGBA:
		p.samples = 4
	}
	return p.width > 0 && p.height > 0 && p.samples > 0 &&
		h[depth] == 8 && h[method] == 0 && h[filter] == 0 && h[interlace] == 0
}

// model returns the color model that image/png has for such a file.
func (p *pngFile) model() color.Model {
	switch p.kind {
	case pngGray:
		return color.GrayModel
	case pngRGB:
		return color.RGBAModel
	case pngPalette:
		return color.Palette(nil)
	}
	return color.NRGBAModel
}

// pixels undoes the filters of the rows; each row begins with the number of its filter. It returns
// nil if there is no such filter. If the image has the same samples as the file, they are written
// directly into it; otherwise they are unfiltered in place and then converted.
func (p *pngFile) pixels(rows []byte, gray bool) *Image {
	channels := 3
	if gray || p.kind == pngGray {
		channels = 1
	}
	im := NewImage(p.width, p.height, channels)
	straight := p.kind == pngGray || p.kind == pngRGB && !gray
	n := p.width * p.samples
	above := make([]byte, n) // zeros above the first row
	for y := range im.Height {
		row := rows[y*(1+n):][:1+n]
		out := row[1:]
		if straight {
			out = im.Row(y)
		}
		if !unfilter(out, row[1:], above, row[0], p.samples) {
			return nil
		}
		if !straight {
			p.convert(im.Row(y), out, gray)
		}
		above = out
	}
	return im
}

// convert converts a row of the file to a row of the image. Alpha is dropped.
func (p *pngFile) convert(out, row []byte, gray bool) {
	switch {
	case p.kind == pngPalette && gray:
		for x, index := range row {
			c := p.colour(index)
			out[x] = luma(c[0], c[1], c[2])
		}
	case p.kind == pngPalette:
		for x, index := range row {
			copy(out[3*x:3*x+3], p.colour(index))
		}
	case p.kind == pngGrayAlpha && gray:
		for x := range out {
			out[x] = row[2*x]
		}
	case p.kind == pngGrayAlpha:
		for x := 0; 2*x < len(row); x++ {
			v := row[2*x]
			out[3*x], out[3*x+1], out[3*x+2] = v, v, v
		}
	case gray:
		for x := range out {
			c := row[x*p.samples:][:3]
			out[x] = luma(c[0], c[1], c[2])
		}
	default:
		for x := 0; 4*x < len(row); x++ {
			out[3*x], out[3*x+1], out[3*x+2] = row[4*x], row[4*x+1], row[4*x+2]
		}
	}
}

// colour returns an entry of the palette; an index past its end is black.
func (p *pngFile) colour(index byte) []byte {
	if at := 3 * int(index); at < len(p.palette) {
		return p.palette[at : at+3]
	}
	return []byte{0, 0, 0}
}

// unfilter undoes the filter of a row and writes the samples to out, which may be row. above is the
// previous row, and a pixel has bpp bytes. It returns false if there is no such filter.
func unfilter(out, row, above []byte, filter byte, bpp int) bool {
	row, above = row[:len(out)], above[:len(out)]
	switch filter {
	case 0:
		copy(out, row)
	case 1:
		copy(out[:bpp], row)
		for i := bpp; i < len(out); i++ {
			out[i] = row[i] + out[i-bpp]
		}
	case 2:
		unfilterUp(out, row, above)
	case 3:
		for k := range bpp { // one channel at a time, to keep the left sample in a register
			left := 0
			for i := k; i < len(out); i += bpp {
				left = int(row[i] + uint8((left+int(above[i]))>>1))
				out[i] = uint8(left)
			}
		}
	case 4:
		for k := range bpp {
			paeth(out, row, above, k, bpp)
		}
	default:
		return false
	}
	return true
}

// unfilterUp adds eight samples at a time: the low seven bits of each, then the highest bit.
func unfilterUp(out, row, above []byte) {
	const high = 0x8080808080808080
	i := 0
	for ; i+8 <= len(out); i += 8 {
		a, b := binary.LittleEndian.Uint64(row[i:]), binary.LittleEndian.Uint64(above[i:])
		binary.LittleEndian.PutUint64(out[i:], (a&^high+b&^high)^(a^b)&high)
	}
	for ; i < len(out); i++ {
		out[i] = row[i] + above[i]
	}
}

// paeth undoes the Paeth filter for one channel: it adds the nearest of left, above and between
// (the upper left) to left + above - between. It compiles without branches on samples, which would
// be mispredicted.
func paeth(out, row, above []byte, first, bpp int) {
	row, above = row[:len(out)], above[:len(out)]
	left, between := 0, 0
	for i := first; i < len(out); i += bpp {
		up := int(above[i])
		byLeft, byUp := up-between, left-between // the distances of left and up from that sum
		byBoth := byLeft + byUp
		byLeft, byUp, byBoth = max(byLeft, -byLeft), max(byUp, -byUp), max(byBoth, -byBoth)
		nearest := between
		if byUp <= byBoth {
			nearest = up
		}
		if byLeft <= min(byUp, byBoth) {
			nearest = left
		}
		left, between = int(row[i]+uint8(nearest)), up
		out[i] = uint8(left)
	}
}
