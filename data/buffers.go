package data

import "sync"

// Buffers lends memory for batches and takes it back, so that a new batch can use the memory of one
// that is no longer used. The zero value is ready to use, and its methods may be called by several
// goroutines at a time. It never holds more than was lent at the same time.
type Buffers[T any] struct {
	lock sync.Mutex
	free [][]T
}

// Get returns a slice of n items with arbitrary contents.
func (b *Buffers[T]) Get(n int) []T {
	b.lock.Lock()
	defer b.lock.Unlock()
	if last := len(b.free) - 1; last >= 0 {
		s := b.free[last]
		b.free[last], b.free = nil, b.free[:last]
		if cap(s) >= n { // otherwise it is dropped for a larger one
			return s[:n]
		}
	}
	return make([]T, n)
}

// Put takes back a slice that Get returned. The slice must not be used any more.
func (b *Buffers[T]) Put(s []T) {
	if cap(s) == 0 {
		return
	}
	b.lock.Lock()
	defer b.lock.Unlock()
	b.free = append(b.free, s)
}
