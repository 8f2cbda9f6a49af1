package table

import (
	"bytes"
	"io"
	"sync"
)

// feeds counts the line feeds of a file, to number its lines. It counts each piece once: with many
// bad rows, counting from the start for each would take quadratic time.
type feeds struct {
	mutex  sync.Mutex
	pieces []int // line feeds before each piece, as far as counted
	buffer []byte
}

const feedsPiece = 64 << 10

// before returns the number of line feeds before offset in the file that stream reads.
func (f *feeds) before(offset int64, stream func(begin, end int64) io.Reader) int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.pieces == nil {
		f.pieces, f.buffer = []int{0}, make([]byte, feedsPiece)
	}
	count := func(begin, end int64) (int, error) {
		n, err := io.ReadFull(stream(begin, end), f.buffer[:end-begin])
		return bytes.Count(f.buffer[:n], []byte("\n")), err
	}
	last := offset / feedsPiece
	for k := int64(len(f.pieces)) - 1; k < last; k++ {
		n, err := count(k*feedsPiece, (k+1)*feedsPiece)
		if err != nil { // the number is only for a message; the next call tries again
			return f.pieces[k] + n
		}
		f.pieces = append(f.pieces, f.pieces[k]+n)
	}
	n, _ := count(last*feedsPiece, offset) // as above
	return f.pieces[last] + n
}
