package pickle

// maxMemory limits the memory for the description of a file besides its pickle: the files of the
// zip, the values and the names of the tensors. A tensor takes about 2,500 bytes, so there is room
// for 20,000.
const maxMemory = 52 << 20

// budget counts the allocated bytes, by a rough upper estimate. Garbage counts too, since the
// collector may be late.
type budget struct{ bytes int }

func (b *budget) take(n int) error {
	if b.bytes += n; b.bytes > maxMemory {
		return fault(ErrTooLarge, "", "it needs more than %d MB of memory without its tensors", maxMemory>>20)
	}
	return nil
}

// takeItems counts the memory for n items that are about to be added to a dictionary.
func (b *budget) takeItems(d *Dict, n int) error {
	if d.index == nil && n > 0 {
		if err := b.take(500); err != nil { // the index starts with room for eight
			return err
		}
	}
	return b.take(240 * n)
}
