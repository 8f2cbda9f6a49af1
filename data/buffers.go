package data

import "sync"

// Buffers lends memory for batches and takes it back, so that a batch is made in the memory of one
// that is not used any more. The zero value is ready; its methods may be called by several
// goroutines at a time. It never holds more than was lent out at once.
type Buffers[T any] struct {
	lock sync.Mutex
	free [][]T
}

// Get returns a slice of n items, whatever they were before.
func (b *Buffers[T]) Get(n int) []T {
	b.lock.Lock()
	defer b.lock.Unlock()
	if last := len(b.free) - 1; last >= 0 {
		s := b.free[last]
		b.free[last], b.free = nil, b.free[:last]
		if cap(s) >= n { // else a larger one takes its place
			return s[:n]
		}
	}
	return make([]T, n)
}

// Put takes a slice back that Get has returned. Nobody may use it any more.
func (b *Buffers[T]) Put(s []T) {
	if cap(s) == 0 {
		return
	}
	b.lock.Lock()
	defer b.lock.Unlock()
	b.free = append(b.free, s)
}
