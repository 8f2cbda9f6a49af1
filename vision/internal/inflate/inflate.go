// Package inflate decompresses zlib streams whose decompressed size is known, such as the rows of a
// PNG: in one pass into one buffer, with a bit buffer of 64 bits and tables that give a literal, or
// a length with its extra bits, in a single lookup. The design is that of libdeflate.
//
// It is for valid streams. For others it only returns [ErrStream]; compress/zlib can say what is
// wrong.
package inflate

import (
	"encoding/binary"
	"errors"
	"hash/adler32"
	"sync"
)

// ErrStream is returned for a stream that is damaged, cut short, of another size than expected, or
// made with a preset dictionary.
var ErrStream = errors.New("inflate: want a sound zlib stream of the expected size")

// Slack is the number of extra bytes required after the input and the output, so that whole words
// can be read and written at their ends.
const Slack = 16

// Zlib decompresses the stream in[:packed] into out[:size]. Both slices must have [Slack] more
// bytes; those of out are overwritten.
func Zlib(out []byte, size int, in []byte, packed int) error {
	const head, sum = 2, 4
	if packed < head+sum || len(in) < packed+Slack || len(out) < size+Slack {
		return ErrStream
	}
	if in[0]&0x0f != 8 || in[0]>>4 > 7 || in[1]&0x20 != 0 || binary.BigEndian.Uint16(in)%31 != 0 {
		return ErrStream // another method, too large a window, a dictionary, or a damaged header
	}
	d := decoders.Get().(*decoder) //nolint:forcetypeassert // nothing else is in it
	defer func() {
		d.in, d.out = nil, nil
		decoders.Put(d)
	}()
	d.in, d.pos, d.buf, d.n = in, head, 0, 0
	d.out, d.at, d.size = out, 0, size
	if !d.blocks() || d.at != size || d.pos-int(d.n/8) != packed-sum ||
		adler32.Checksum(out[:size]) != binary.BigEndian.Uint32(in[packed-sum:]) {
		return ErrStream
	}
	return nil
}

// decoder decompresses one stream at a time; its tables are reused.
type decoder struct {
	in  []byte
	pos int    // of the next byte that is not in buf
	buf uint64 // the next bits, the first one lowest
	n   uint   // how many of them are valid

	out      []byte
	at, size int

	lengths  [maxLiterals + maxDistances]uint8 // code lengths of a block
	literal  [literalEntries]uint32
	distance [distanceEntries]uint32
	order    [1 << orderBits]uint32
}

var decoders = sync.Pool{New: func() any { return new(decoder) }}

// blocks decompresses all blocks. It returns false if the stream is invalid.
func (d *decoder) blocks() bool {
	for last := false; !last; {
		if !d.fill() {
			return false
		}
		last = d.take(1) == 1
		ok := false
		switch d.take(2) {
		case 0:
			ok = d.stored()
		case 1:
			ok = d.fixed() && d.compressed()
		case 2:
			ok = d.dynamic() && d.compressed()
		}
		if !ok {
			return false
		}
	}
	return true
}

// fill refills buf to at least 56 bits; false means that the input is exhausted.
func (d *decoder) fill() bool {
	if d.pos > len(d.in)-8 {
		return false
	}
	d.buf |= binary.LittleEndian.Uint64(d.in[d.pos:]) << (d.n & 63)
	d.pos += int((63 - d.n) >> 3)
	d.n |= 56
	return true
}

// take removes up to 16 bits.
func (d *decoder) take(n uint) int {
	v := d.buf & (1<<n - 1)
	d.buf >>= n
	d.n -= n
	return int(v)
}

// stored copies a block that is not compressed, which begins at the next byte boundary.
func (d *decoder) stored() bool {
	pos := d.pos - int(d.n/8)
	if pos+4 > len(d.in) {
		return false
	}
	n := int(binary.LittleEndian.Uint16(d.in[pos:]))
	if n != int(^binary.LittleEndian.Uint16(d.in[pos+2:])) || pos+4+n > len(d.in) || n > d.size-d.at {
		return false
	}
	d.at += copy(d.out[d.at:], d.in[pos+4:pos+4+n])
	d.pos, d.buf, d.n = pos+4+n, 0, 0
	return true
}

// fixed builds the tables of a block with the fixed codes of the standard.
func (d *decoder) fixed() bool {
	l := d.lengths[:maxLiterals+maxDistances]
	for i := range l {
		switch {
		case i < 144, i >= 280 && i < maxLiterals:
			l[i] = 8
		case i < 256:
			l[i] = 9
		case i < 280:
			l[i] = 7
		default:
			l[i] = 5
		}
	}
	return build(d.literal[:], literalBits, l[:maxLiterals], literals[:]) &&
		build(d.distance[:], distanceBits, l[maxLiterals:], distances[:])
}

// dynamic reads the codes of a block: their lengths, which are themselves Huffman-coded.
func (d *decoder) dynamic() bool {
	nl, nd, nc := d.take(5)+257, d.take(5)+1, d.take(4)+4
	if nl > 286 || nd > 30 {
		return false
	}
	var short [len(permutation)]uint8
	for i, p := range permutation[:nc] {
		if i%16 == 0 && !d.fill() {
			return false
		}
		short[p] = uint8(d.take(3))
	}
	if !build(d.order[:], orderBits, short[:], plain[:]) {
		return false
	}
	for i := 0; i < nl+nd; {
		if !d.fill() {
			return false
		}
		e := d.order[d.buf&(1<<orderBits-1)]
		d.take(uint(e & 0xff))
		symbol, value, n := e>>16, uint8(0), 1
		switch {
		case e&other != 0:
			return false
		case symbol < 16:
			value = uint8(symbol)
		case symbol == 16 && i > 0:
			value, n = d.lengths[i-1], 3+d.take(2)
		case symbol == 17:
			n = 3 + d.take(3)
		case symbol == 18:
			n = 11 + d.take(7)
		default:
			return false
		}
		if n > nl+nd-i {
			return false
		}
		for range n {
			d.lengths[i] = value
			i++
		}
	}
	return build(d.literal[:], literalBits, d.lengths[:nl], literals[:]) &&
		build(d.distance[:], distanceBits, d.lengths[nl:nl+nd], distances[:])
}

// permutation is the order in which a block lists the lengths of the codes for code lengths.
var permutation = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// compressed decompresses the symbols of a block. It copies the fields of d to variables, which
// stay in registers. A length takes up to 20 bits and a distance 28. The buffer is refilled to 56
// bits, so that three literals of 10 bits can come before a length.
func (d *decoder) compressed() bool {
	in, pos, buf, n := d.in, d.pos, d.buf, d.n
	out, at, size := d.out[:d.size+Slack], d.at, d.size
	for {
		if pos > len(in)-8 || at > size {
			return false
		}
		buf |= binary.LittleEndian.Uint64(in[pos:]) << (n & 63)
		pos += int((63 - n) >> 3)
		n |= 56
		e := d.literal[buf&(1<<literalBits-1)]
		for range 3 {
			if e&literal == 0 {
				break
			}
			out[at] = byte(e >> 16)
			at++
			buf >>= e & 63
			n -= uint(e & 63)
			e = d.literal[buf&(1<<literalBits-1)]
		}
		if e&other != 0 {
			e, buf, n = second(d.literal[:], e, buf, n, literalBits)
		}
		if e&literal != 0 { // a fourth literal, or one with a long code: refill first
			out[at] = byte(e >> 16)
			at++
			buf >>= e & 63
			n -= uint(e & 63)
			continue
		}
		if e&other != 0 {
			d.pos, d.buf, d.n, d.at = pos, buf>>(e&63), n-uint(e&63), at
			return e&wrong == 0 // the end of the block
		}
		length := int(e>>16) + int(uint32(buf)&(1<<(e&63)-1)>>(e>>8&15))
		buf >>= e & 63
		n -= uint(e & 63)

		if n < 28 {
			if pos > len(in)-8 {
				return false
			}
			buf |= binary.LittleEndian.Uint64(in[pos:]) << (n & 63)
			pos += int((63 - n) >> 3)
			n |= 56
		}
		e = d.distance[buf&(1<<distanceBits-1)]
		if e&other != 0 {
			e, buf, n = second(d.distance[:], e, buf, n, distanceBits)
		}
		if e&other != 0 {
			return false
		}
		distance := int(e>>16) + int(uint32(buf)&(1<<(e&63)-1)>>(e>>8&15))
		buf >>= e & 63
		n -= uint(e & 63)

		if distance > at || length > size-at {
			return false
		}
		match(out, at, distance, at+length)
		at += length
	}
}

// second looks up a code in the second table if it has more bits than index the first.
func second(t []uint32, e uint32, buf uint64, n, bits uint) (uint32, uint64, uint) {
	if e&longer == 0 {
		return e, buf, n
	}
	buf >>= bits & 63
	return t[e>>16+uint32(buf)&(1<<(e>>8&15)-1)], buf, n - bits
}

// match copies the bytes at the given distance before at to at, up to end, word by word.
func match(out []byte, at, distance, end int) {
	from := at - distance
	for at-from < 8 && at < end { // a pattern of less than 8 bytes is doubled until it fills a word
		step := at - from
		binary.LittleEndian.PutUint64(out[at:], binary.LittleEndian.Uint64(out[from:]))
		at += step
	}
	for ; at < end; at, from = at+8, from+8 {
		binary.LittleEndian.PutUint64(out[at:], binary.LittleEndian.Uint64(out[from:]))
	}
}
