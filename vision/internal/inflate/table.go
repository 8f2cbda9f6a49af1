package inflate

import "math/bits"

// A table is indexed by the next bits of the stream, and an entry describes the symbol that they
// begin with. Codes with more bits than that lead to a second table, stored after the first. From
// the lowest bit, an entry consists of:
//
//	 8 bits  how many bits of the stream it takes, those of the code and the extra bits behind it
//	 4 bits  how many of them are the code; where longer is set, how many bits index the second table
//	 4 bits  wrong, longer, other
//	15 bits  the literal, the smallest length or distance, or where the second table begins
//	 1 bit   literal
const (
	wrong   = 1 << 13 // no code begins with these bits
	longer  = 1 << 14 // the code is in a second table
	other   = 1 << 15 // wrong, longer, or the end of the block
	literal = 1 << 31
)

const (
	maxLiterals  = 288
	maxDistances = 32

	literalBits, distanceBits, orderBits = 10, 8, 7

	// The maximum number of entries for complete codes of up to 15 bits, as computed by zlib's
	// examples/enough.
	literalEntries, distanceEntries = 1334, 402
)

// The meanings of the symbols: entries without the bits of a code.
var literals, distances, plain = meanings()

func meanings() (l [maxLiterals]uint32, d [maxDistances]uint32, p [len(permutation)]uint32) {
	for i := range 256 {
		l[i] = literal | uint32(i)<<16
	}
	l[256] = other
	base := uint32(3)
	for i := 257; i < 285; i++ {
		extra := uint32(max(i-261, 0) / 4)
		l[i] = base<<16 | extra
		base += 1 << extra
	}
	l[285] = 258 << 16
	l[286], l[287] = other|wrong, other|wrong
	base = 1
	for i := range 30 {
		extra := uint32(max(i-2, 0) / 2)
		d[i] = base<<16 | extra
		base += 1 << extra
	}
	d[30], d[31] = other|wrong, other|wrong
	for i := range p {
		p[i] = uint32(i) << 16
	}
	return l, d, p
}

// build builds the table for codes of the given lengths, 0 for a symbol without a code. It returns
// false for oversubscribed codes, and for incomplete ones except a single code of one bit and no
// code at all.
func build(t []uint32, tableBits int, lengths []uint8, meaning []uint32) bool {
	var count, next [16]int
	for _, n := range lengths {
		count[n]++
	}
	used := len(lengths) - count[0]
	count[0] = 0
	space, place := 0, 0 // the share of all 15-bit codes; the index among symbols sorted by length
	for n := 1; n <= 15; n++ {
		next[n] = place
		place += count[n]
		space += count[n] << (15 - n)
	}
	if space != 1<<15 && (used > 1 || used != count[1]) {
		return false
	}
	var sorted [maxLiterals]uint16
	for symbol, n := range lengths {
		if n > 0 {
			sorted[next[n]] = uint16(symbol)
			next[n]++
		}
	}
	symbols := sorted[:used]
	if used < 2 {
		for i := range t[:1<<tableBits] {
			t[i] = other | wrong
		}
	}
	code := 0
	for n := 1; n <= tableBits; n++ { // each length fills 1<<n entries, which are copied for the next
		for range count[n] {
			t[reverse(code, n)] = meaning[symbols[0]] + uint32(n)<<8 + uint32(n)
			symbols = symbols[1:]
			code++
		}
		if n < tableBits {
			copy(t[1<<n:2<<n], t[:1<<n])
		}
		code <<= 1
	}
	if len(symbols) > 0 {
		longCodes(t, tableBits, code, &count, symbols, meaning)
	}
	return true
}

// longCodes builds the second tables, for the symbols whose codes have more bits than index the
// first. code is the smallest of these codes, of tableBits+1 bits.
func longCodes(t []uint32, tableBits, code int, count *[16]int, symbols []uint16, meaning []uint32) {
	start, size, prefix := 0, 1<<tableBits, -1
	for n := tableBits + 1; len(symbols) > 0; n++ {
		for left := count[n]; left > 0; left-- {
			r := reverse(code, n)
			if r&(1<<tableBits-1) != prefix {
				prefix = r & (1<<tableBits - 1)
				b := n - tableBits
				for room := left; room < 1<<b; { // until the remaining codes with this prefix fill the table
					b++
					room = room<<1 + count[tableBits+b]
				}
				start, size = size, size+1<<b
				t[prefix] = other | longer | uint32(start)<<16 | uint32(b)<<8
			}
			e := meaning[symbols[0]] + uint32(n-tableBits)<<8 + uint32(n-tableBits)
			for i := start + r>>tableBits; i < size; i += 1 << (n - tableBits) {
				t[i] = e
			}
			symbols = symbols[1:]
			code++
		}
		code <<= 1
	}
}

// reverse reverses the bits of a code of n bits, since the stream has the first bit lowest.
func reverse(code, n int) int {
	return int(bits.Reverse16(uint16(code)) >> (16 - n))
}
