// Package trie finds the keys that a text begins with, by a double-array trie over bytes: twelve
// bytes per node, one memory access per step.
package trie

import (
	"slices"
	"sort"
)

// Root is the state before the first byte.
const Root int32 = 0

// None is the value of a state at which no key ends.
const None int32 = -1

// unit is a state. The state after byte c is base+c if that unit's check is this state.
type unit struct{ base, check, value int32 }

// Trie maps keys to the values 0, 1, 2 and so on.
type Trie struct{ units []unit }

// Step returns the state after byte c.
func (t *Trie) Step(state int32, c byte) (int32, bool) {
	next := t.units[state].base + int32(c)
	return next, uint32(next) < uint32(len(t.units)) && t.units[next].check == state
}

// Value returns the value of the key that ends at a state, or [None].
func (t *Trie) Value(state int32) int32 { return t.units[state].value }

// Walk returns the state after a text.
func (t *Trie) Walk(state int32, text string) (int32, bool) {
	for i := range len(text) {
		next, ok := t.Step(state, text[i])
		if !ok {
			return 0, false
		}
		state = next
	}
	return state, true
}

// Longest returns the value and the length of the longest key, continued from state, that text
// begins with; [None] if there is none. The empty key does not count.
func (t *Trie) Longest(state int32, text []byte) (value int32, length int) {
	value = None
	units := t.units
	for i, c := range text {
		next := units[state].base + int32(c)
		if uint32(next) >= uint32(len(units)) || units[next].check != state {
			break
		}
		state = next
		if v := units[state].value; v != None {
			value, length = v, i+1
		}
	}
	return value, length
}

// New builds a trie; the value of each key is its index in keys. Keys must be distinct.
func New(keys []string) *Trie {
	order := make([]int32, len(keys))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		if keys[a] < keys[b] {
			return -1
		}
		return 1
	})
	b := builder{keys: keys, order: order, free: 1}
	b.grow(512)
	b.units[0] = unit{base: 1, check: 0, value: None}
	b.used[0] = true
	b.build()
	end := len(b.units)
	for end > 1 && !b.used[end-1] {
		end--
	}
	return &Trie{units: slices.Clip(slices.Clone(b.units[:end]))}
}

type builder struct {
	keys  []string
	order []int32 // indices of the keys in sorted order
	units []unit
	used  []bool
	free  int32 // no unit before it is free
}

func (b *builder) grow(n int) {
	for len(b.units) < n {
		b.units = append(b.units, unit{base: 1, check: -1, value: None})
		b.used = append(b.used, false)
	}
}

// node is a state whose children are still to be placed: the keys order[lo:hi] begin with the same
// depth bytes.
type node struct {
	state, lo, hi int32
	depth         int
}

func (b *builder) build() {
	stack := []node{{Root, 0, int32(len(b.order)), 0}}
	var labels []byte
	var starts []int32
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		lo := n.lo
		if lo < n.hi && len(b.keys[b.order[lo]]) == n.depth {
			b.units[n.state].value = b.order[lo]
			lo++
		}
		if lo == n.hi {
			continue
		}
		labels, starts = labels[:0], starts[:0]
		for i := lo; i < n.hi; {
			c := b.keys[b.order[i]][n.depth]
			labels, starts = append(labels, c), append(starts, i)
			i += int32(sort.Search(int(n.hi-i), func(k int) bool { return b.keys[b.order[int(i)+k]][n.depth] > c }))
		}
		base := b.place(labels)
		b.units[n.state].base = base
		for k, c := range labels {
			s := base + int32(c)
			b.units[s].check, b.used[s] = n.state, true
			hi := n.hi
			if k+1 < len(starts) {
				hi = starts[k+1]
			}
			stack = append(stack, node{s, starts[k], hi, n.depth + 1})
		}
	}
}

// place finds a base at which the units of all labels are free.
func (b *builder) place(labels []byte) int32 {
	for int(b.free) < len(b.used) && b.used[b.free] {
		b.free++
	}
	tried := 0
	for at := b.free; ; at++ {
		b.grow(int(at) + 512)
		if b.used[at] {
			continue
		}
		base := at - int32(labels[0])
		if base < 1 {
			continue
		}
		if fits := !slices.ContainsFunc(labels[1:], func(c byte) bool { return b.used[base+int32(c)] }); fits {
			return base
		}
		// After many failures the units before here are nearly all used, and searching them again
		// for each node would take quadratic time.
		if tried++; tried == 64 {
			b.free = at
		}
	}
}
