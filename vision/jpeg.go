package vision

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"sync"
)

// decodeJPEG decodes a JPEG of the usual kind: baseline, gray or YCbCr, all components in one scan,
// without restart markers. It returns nil for other files and for damaged ones: image/jpeg decodes
// them, or says what is wrong. The pixels are those of libjpeg, and so of Pillow, while those of
// image/jpeg differ by up to three levels.
func decodeJPEG(raw []byte, o DecodeOptions) *Image {
	if !bytes.HasPrefix(raw, []byte(magicJPEG)) {
		return nil
	}
	d := jpegs.Get().(*jpegDecoder) //nolint:forcetypeassert // nothing else is in it
	defer func() {
		if d.in = nil; cap(d.planes) <= mostKept {
			jpegs.Put(d)
		}
	}()
	*d = jpegDecoder{in: raw, planes: d.planes}
	if !d.headers(o) || !d.scan() {
		return nil
	}
	if o.Gray {
		return grayFromStd(d.picture())
	}
	return FromStd(d.picture())
}

var jpegs = sync.Pool{New: func() any { return new(jpegDecoder) }}

type jpegDecoder struct {
	in            []byte
	at            int // index of the next byte of in
	width, height int
	components    []component // a slice of parts
	parts         [3]component
	quant         [4][64]int32 // in zigzag order
	quantSeen     [4]bool
	huffman       [2][2]huffman // of DC and AC coefficients
	planes        []uint8

	buf uint64 // the next bits, the first one highest
	n   int    // how many of them are valid; those past the end of the scan are zeros
	end int    // how many of them are such zeros past the end
}

// component is Y, Cb or Cr.
type component struct {
	id, quant byte
	h, v      int // blocks in a unit of the scan (MCU), across and down
	dc, ac    *huffman
	last      int32 // DC coefficient
	plane     []uint8
	stride    int
}

// headers reads the segments up to the scan.
func (d *jpegDecoder) headers(o DecodeOptions) bool {
	const (
		sof0, dht, sos, dqt, app0, app14, app15, comment = 0xc0, 0xc4, 0xda, 0xdb, 0xe0, 0xee, 0xef, 0xfe
	)
	for d.at = len(magicJPEG); d.at+4 <= len(d.in); {
		marker, n := d.in[d.at+1], int(binary.BigEndian.Uint16(d.in[d.at+2:]))
		if d.in[d.at] != 0xff || n < 2 || n > len(d.in)-d.at-2 {
			return false
		}
		s := d.in[d.at+4 : d.at+2+n]
		d.at += 2 + n
		ok := false
		switch {
		case marker == sof0:
			ok = d.frame(s, o)
		case marker == dht:
			ok = d.codes(s)
		case marker == dqt:
			ok = d.quantization(s)
		case marker == sos:
			return d.selectors(s)
		case marker >= app0 && marker <= app15 && marker != app14 || marker == comment:
			ok = true // app14 may announce another color transform
		}
		if !ok {
			return false
		}
	}
	return false
}

// frame reads the size of the image and the components, and allocates their planes.
func (d *jpegDecoder) frame(s []byte, o DecodeOptions) bool {
	if len(s) < 6 || s[0] != 8 || d.components != nil || s[5] != 1 && s[5] != 3 || len(s) != 6+3*int(s[5]) {
		return false
	}
	d.height, d.width = int(binary.BigEndian.Uint16(s[1:])), int(binary.BigEndian.Uint16(s[3:]))
	d.components = d.parts[:s[5]]
	for i := range d.components {
		c := &d.components[i]
		c.id, c.h, c.v, c.quant = s[6+3*i], int(s[7+3*i]>>4), int(s[7+3*i]&15), s[8+3*i]
		if c.quant > 3 || c.h < 1 || c.h > 2 || c.v < 1 || c.v > 2 || i > 0 && (c.h != 1 || c.v != 1) {
			return false
		}
	}
	p, model := &d.parts, color.YCbCrModel
	if len(d.components) == 1 {
		p[0].h, p[0].v, model = 1, 1, color.GrayModel
	} else if p[0].id == p[1].id || p[1].id == p[2].id || p[0].id == p[2].id || p[0].id == 'R' {
		return false
	}
	if d.width == 0 || d.height == 0 || o.refuse(d.width, d.height, model, len(d.in), true) != "" {
		return false
	}
	across, down := d.units()
	const leastBlock = 4 // blocks per byte, at most: 2 bits for each
	if across*down*p[0].h*p[0].v/leastBlock > len(d.in) {
		return false
	}
	size := 0
	for i := range d.components {
		size += across * down * d.components[i].h * d.components[i].v * 64
	}
	if cap(d.planes) < size {
		d.planes = make([]uint8, size)
	}
	rest := d.planes[:size]
	for i := range d.components {
		c := &d.components[i]
		c.stride = across * c.h * 8
		n := c.stride * down * c.v * 8
		c.plane, rest = rest[:n:n], rest[n:]
	}
	return true
}

// units returns the number of units (MCUs) of the scan across and down the image.
func (d *jpegDecoder) units() (across, down int) {
	w, h := 8*d.parts[0].h, 8*d.parts[0].v
	return (d.width + w - 1) / w, (d.height + h - 1) / h
}

func (d *jpegDecoder) quantization(s []byte) bool {
	for ; len(s) >= 65; s = s[65:] {
		if s[0] > 3 { // another table, or numbers of 16 bits
			return false
		}
		for i, v := range s[1:65] {
			d.quant[s[0]][i] = int32(v)
		}
		d.quantSeen[s[0]] = true
	}
	return len(s) == 0
}

func (d *jpegDecoder) codes(s []byte) bool {
	for len(s) > 17 {
		class, id, n := s[0]>>4, s[0]&15, 0
		for _, c := range s[1:17] {
			n += int(c)
		}
		if class > 1 || id > 1 || n == 0 || n > 256 || n > len(s)-17 || !d.huffman[class][id].build(s[1:17], s[17:17+n]) {
			return false
		}
		s = s[17+n:]
	}
	return len(s) == 0
}

// selectors reads which Huffman codes the components use.
func (d *jpegDecoder) selectors(s []byte) bool {
	n := len(d.components)
	if n == 0 || len(s) != 4+2*n || int(s[0]) != n || s[1+2*n] != 0 || s[2+2*n] != 63 || s[3+2*n] != 0 {
		return false
	}
	for i := range d.components {
		c, tables := &d.components[i], s[2+2*i]
		if s[1+2*i] != c.id || tables>>4 > 1 || tables&15 > 1 || !d.quantSeen[c.quant] {
			return false
		}
		c.dc, c.ac = &d.huffman[0][tables>>4], &d.huffman[1][tables&15]
		if !c.dc.seen || !c.ac.seen {
			return false
		}
	}
	return true
}

// scan decodes the blocks. They must be followed by the end of the image.
func (d *jpegDecoder) scan() bool {
	across, down := d.units()
	for y := range down {
		for x := range across {
			for i := range d.components {
				c := &d.components[i]
				for j := range c.h * c.v {
					corner := (y*c.v+j/c.h)*8*c.stride + (x*c.h+j%c.h)*8
					if !d.block(c, c.plane[corner:]) {
						return false
					}
				}
			}
		}
	}
	// less than a byte of the scan is left, followed by the marker EOI
	return d.n-d.end < 8 && d.n >= d.end && d.at+2 <= len(d.in) && d.in[d.at] == 0xff && d.in[d.at+1] == 0xd9
}

// block decodes 8 by 8 samples into out.
func (d *jpegDecoder) block(c *component, out []uint8) bool {
	var b [64]int32
	quant := &d.quant[c.quant]
	d.fill()
	size, ok := d.symbol(c.dc)
	if !ok || size > 11 {
		return false
	}
	c.last += d.signed(uint(size))
	b[0] = c.last * quant[0]
	highest := 0
	for k := 1; k < 64; k++ {
		if d.n < 32 {
			d.fill()
		}
		symbol, ok := d.symbol(c.ac)
		size := uint(symbol & 15)
		switch {
		case !ok || size > 10 || size == 0 && symbol != 0 && symbol != 0xf0:
			return false
		case symbol == 0:
			k = 64 // the remaining coefficients are zero
			continue
		}
		k += int(symbol >> 4)
		if size == 0 {
			continue // 16 zeros: 15 here and one by the loop
		}
		if k > 63 {
			return false
		}
		highest = k
		b[zigzag[k]] = d.signed(size) * quant[k]
	}
	inverseDCT(&b, highest, out, c.stride)
	return d.n >= d.end
}

// fill refills buf to at least 49 bits. A byte 0xff is followed by a stuffed zero, which is
// skipped, or it begins the marker after the scan.
func (d *jpegDecoder) fill() {
	if d.at+8 <= len(d.in) {
		v := binary.BigEndian.Uint64(d.in[d.at:])
		const ones, high = 0x0101010101010101, 0x8080808080808080
		if (^v-ones)&v&high == 0 { // no byte is 0xff
			d.buf |= v >> (d.n & 63)
			d.at += (63 - d.n) >> 3
			d.n |= 56
			return
		}
	}
	d.buf &^= 1<<(64-d.n) - 1 // clear bits after the n valid ones
	for ; d.n <= 48; d.n += 8 {
		if d.at+1 >= len(d.in) || d.in[d.at] == 0xff && d.in[d.at+1] != 0 {
			d.end += 8
			continue
		}
		d.buf |= uint64(d.in[d.at]) << (56 - d.n)
		if d.in[d.at] == 0xff {
			d.at++
		}
		d.at++
	}
}

// symbol reads a Huffman code and returns its value.
func (d *jpegDecoder) symbol(h *huffman) (uint8, bool) {
	e := h.short[d.buf>>(64-shortBits)]
	if e == 0 {
		return d.long(h)
	}
	d.buf <<= e & 63
	d.n -= int(e & 63)
	return uint8(e >> 8), true
}

// long reads a code with more bits than index the table.
func (d *jpegDecoder) long(h *huffman) (uint8, bool) {
	for n := shortBits + 1; n <= 16; n++ {
		if code := int32(d.buf >> (64 - n)); code < h.limit[n] {
			d.buf <<= n
			d.n -= n
			return h.values[h.first[n]+code], true
		}
	}
	return 0, false
}

// signed reads a number of less than 16 bits; one that begins with a 0 bit is negative.
func (d *jpegDecoder) signed(bits uint) int32 {
	v := int32(d.buf >> 1 >> (63 - bits))
	d.buf <<= bits
	d.n -= int(bits)
	if v < 1<<bits>>1 {
		v += 1 - 1<<bits
	}
	return v
}

const shortBits = 9

// huffman is a Huffman code. The codes of each length are consecutive numbers.
type huffman struct {
	seen   bool
	short  [1 << shortBits]uint16 // value and length of the code that the index begins with; 0 for longer codes
	limit  [17]int32              // by length: one more than the last code
	first  [17]int32              // by length: the index in values that code 0 would have
	values [256]uint8
}

func (h *huffman) build(counts, values []byte) bool {
	*h = huffman{seen: true}
	copy(h.values[:], values)
	code, at := int32(0), int32(0)
	for i, count := range counts {
		n := i + 1
		h.first[n] = at - code
		for range count {
			if n <= shortBits && code < 1<<n {
				entries := h.short[code<<(shortBits-n):][:1<<(shortBits-n)]
				for j := range entries {
					entries[j] = uint16(h.values[at])<<8 | uint16(n)
				}
			}
			code++
			at++
		}
		if code > 1<<n {
			return false // more codes than n bits allow
		}
		h.limit[n] = code
		code <<= 1
	}
	return true
}

// picture returns the decoded image. It shares the planes of d, so the caller must not keep it.
func (d *jpegDecoder) picture() image.Image {
	p, r := &d.parts, image.Rect(0, 0, d.width, d.height)
	if len(d.components) == 1 {
		return &image.Gray{Pix: p[0].plane, Stride: p[0].stride, Rect: r}
	}
	ratio := map[[2]int]image.YCbCrSubsampleRatio{
		{1, 1}: image.YCbCrSubsampleRatio444, {2, 1}: image.YCbCrSubsampleRatio422,
		{1, 2}: image.YCbCrSubsampleRatio440, {2, 2}: image.YCbCrSubsampleRatio420,
	}[[2]int{p[0].h, p[0].v}]
	return &image.YCbCr{Y: p[0].plane, Cb: p[1].plane, Cr: p[2].plane, YStride: p[0].stride, CStride: p[1].stride,
		SubsampleRatio: ratio, Rect: r}
}
