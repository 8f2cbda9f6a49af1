package data_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/data"
)

func TestBuffersNeverLendTheSameMemoryTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var buffers data.Buffers[int]
		var lent [][]int
		for k := range rapid.IntRange(1, 60).Draw(t, "calls") {
			if len(lent) > 0 && rapid.Bool().Draw(t, "put") {
				i := rapid.IntRange(0, len(lent)-1).Draw(t, "which")
				buffers.Put(lent[i])
				lent = append(lent[:i], lent[i+1:]...)
				continue
			}
			n := rapid.IntRange(0, 9).Draw(t, "n")
			s := buffers.Get(n)
			if len(s) != n {
				t.Fatalf("Get(%d) has %d items", n, len(s))
			}
			for i := range s {
				s[i] = k
			}
			for _, other := range lent {
				for _, v := range other {
					if v == k {
						t.Fatalf("two slices that are lent out share memory")
					}
				}
			}
			lent = append(lent, s)
		}
	})
}

func TestBuffersUseMemoryAgain(t *testing.T) {
	var buffers data.Buffers[float32]
	first := buffers.Get(100)
	buffers.Put(first)
	again := buffers.Get(60)
	assert.Same(t, &first[0], &again[0])
	assert.Len(t, again, 60)
	buffers.Put(again)
	assert.Zero(t, testing.AllocsPerRun(100, func() { buffers.Put(buffers.Get(100)) }))
	assert.Len(t, buffers.Get(101), 101, "more than there is")
}

func TestBuffersServeManyGoroutines(t *testing.T) {
	var buffers data.Buffers[int]
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for n := range 200 {
				s := buffers.Get(n % 17)
				for i := range s {
					s[i] = g
				}
				for _, v := range s {
					if v != g {
						t.Error("a slice was lent to two goroutines")
						return
					}
				}
				buffers.Put(s)
			}
		})
	}
	all.Wait()
}
