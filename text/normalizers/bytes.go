package normalizers

// byteRunes holds GPT-2's printable characters for the 256 bytes: printable Latin-1 characters
// stand for themselves, the other bytes are mapped to U+0100 and up.
var byteRunes = func() (runes [256]rune) {
	next := rune(256)
	for b := range runes {
		if b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE {
			runes[b] = rune(b)
			continue
		}
		runes[b] = next
		next++
	}
	return runes
}()

// ByteRune returns the printable character that stands for a byte in byte-level vocabularies: a
// space is Ġ.
func ByteRune(b byte) rune { return byteRunes[b] }

// RuneByte returns the byte that a printable character stands for.
func RuneByte(r rune) (byte, bool) {
	if r < 0 || r >= 0x200 {
		return 0, false
	}
	if r < 0x100 {
		return byte(r), byteRunes[r] == r
	}
	for b, c := range byteRunes {
		if c == r {
			return byte(b), true
		}
	}
	return 0, false
}
