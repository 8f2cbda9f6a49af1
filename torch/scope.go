package torch

import (
	"runtime"
	"sync"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// scope owns the tensors that one thread makes while it is open. Every call of the shim returns the
// slot of the calling thread's scope, so that a result finds its scope without knowing the
// goroutine.
type scope struct {
	slot    int64
	handles []*handle
	raw     []cgotorch.Tensor // the tensors that close frees; kept to reuse its memory
}

const maxScopes = 4096

var (
	// scopes by slot. An entry is written once, under scopesLock, before its slot is given to any
	// thread. A thread reads only the entry of its own slot, so reading needs no lock.
	scopes     [maxScopes]*scope
	freeScopes []*scope
	nextSlot   int64 = 1
	scopesLock sync.Mutex
)

func openScope() *scope {
	scopesLock.Lock()
	defer scopesLock.Unlock()
	if n := len(freeScopes); n > 0 {
		s := freeScopes[n-1]
		freeScopes = freeScopes[:n-1]
		return s
	}
	if nextSlot == maxScopes {
		panic(invalid("Scope", "%d scopes are open at once; a scope is probably opened in itself without end",
			maxScopes-1))
	}
	s := &scope{slot: nextSlot}
	scopes[nextSlot] = s
	nextSlot++
	return s
}

func (s *scope) close() {
	s.raw = s.raw[:0]
	own := int64(0)
	for i, h := range s.handles {
		if h.scope == s { // not kept with Keep
			own++
		}
		if h.scope == s && h.c != nil {
			s.raw = append(s.raw, h.c)
			h.c = nil
		}
		s.handles[i] = nil
	}
	s.handles = s.handles[:0]
	live.Add(-int64(len(s.raw)))
	made.Add(own)
	free(s.raw)
	scopesLock.Lock()
	freeScopes = append(freeScopes, s)
	scopesLock.Unlock()
}

// Scope runs f and then frees, in one call, every tensor that was made in it, except those kept
// with [Tensor.Keep] or handed out by [Return]. Scopes nest, and a tensor belongs to the innermost
// one. The calling goroutine stays on its OS thread meanwhile; tensors made by other goroutines do
// not belong to the scope. The scope ends even if f panics.
func Scope(f func()) {
	load("Scope")
	s := openScope()
	runtime.LockOSThread()
	former := cgotorch.SwapScope(s.slot)
	defer func() {
		cgotorch.SwapScope(former)
		s.close()
		reconsiderWaiting()
		runtime.UnlockOSThread()
	}()
	f()
}

// Return runs f in its own scope and hands its result to the enclosing scope, so that only the
// intermediates are freed.
func Return(f func() Tensor) Tensor {
	var out Tensor
	Scope(func() { out = f().alias() })
	if out.h == nil {
		return out
	}
	return wrap(out.h.c, cgotorch.Code(currentSlot()))
}

// ReturnAll is [Return] for several results.
func ReturnAll(f func() []Tensor) []Tensor {
	var out []Tensor
	Scope(func() {
		for _, t := range f() {
			out = append(out, t.alias())
		}
	})
	slot := cgotorch.Code(currentSlot())
	for i, t := range out {
		if t.h != nil {
			out[i] = wrap(t.h.c, slot)
		}
	}
	return out
}

// alias returns a new handle with its own reference to t, which no scope and not the garbage
// collector owns yet.
func (t Tensor) alias() Tensor {
	if t.h == nil {
		return t
	}
	c := t.ptr("Return")
	cgotorch.Retain(c)
	runtime.KeepAlive(t.h)
	return Tensor{&handle{c: c}}
}

func currentSlot() int64 {
	slot := cgotorch.SwapScope(0)
	cgotorch.SwapScope(slot)
	return slot
}

// Keep lets t outlive the scope in which it was made. From then on the garbage collector or
// [Tensor.Free] frees it. It returns t.
func (t Tensor) Keep() Tensor {
	t.ptr("Keep")
	if t.h.scope != nil {
		t.h.scope = nil
		live.Add(-1)
		collect(t.h)
	}
	return t
}

// Free releases the tensor's memory now. Autograd keeps whatever it still needs. Free of an
// undefined or freed tensor does nothing. No other goroutine may be using the tensor at that
// moment: the process would crash, see [CheckUse].
func (t Tensor) Free() {
	if t.h == nil || t.h.c == nil {
		return
	}
	c := t.h.c
	t.h.c = nil
	if o := t.h.owned; o != nil {
		o.cleanup.Stop()
		collected.count.Add(-1)
		collected.bytes.Add(-o.bytes)
	} else {
		live.Add(-1)
	}
	if checksUse.Load() {
		free([]cgotorch.Tensor{c})
		return
	}
	cgotorch.FreeTensor(c)
}

// Live returns the number of tensors that Go code holds, in open scopes and with the garbage
// collector.
func Live() int64 { return live.Load() + collected.count.Load() }

// Made returns the number of tensors that Go code has received so far and kept, or received in
// scopes that have ended. A training step makes the same number each time, on every machine.
func Made() int64 { return made.Load() }
