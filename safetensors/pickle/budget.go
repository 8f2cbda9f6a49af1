package pickle

// maxMemory bounds what the description of a file takes in memory besides its pickle: the files of
// the zip, the values, the names of the tensors. A tensor takes some 2,500 bytes of it, so that
// there is room for 20,000.
const maxMemory = 52 << 20

// budget counts the bytes that were taken, by a rough estimate from above. What becomes garbage
// counts too: the collector may be late.
type budget struct{ bytes int }

func (b *budget) take(n int) error {
	if b.bytes += n; b.bytes > maxMemory {
		return fault(ErrTooLarge, "", "it needs more than %d MB of memory without its tensors", maxMemory>>20)
	}
	return nil
}

// takeItems is for so many keys and values, which a dictionary is about to get.
func (b *budget) takeItems(d *Dict, n int) error {
	if d.index == nil && n > 0 {
		if err := b.take(500); err != nil { // an index is made for eight at once
			return err
		}
	}
	return b.take(240 * n)
}
