// Package later leaves the drawing of parameters for later: package nn makes them on torch.Meta, with
// a note of how the default generator stood and what was to fill them, so that each can be drawn by
// itself, with the numbers that it would have had.
package later

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/gotrainer/gotrainer/torch"
)

// smallest is the parameter in bytes from which on it pays: a note has the state of a generator.
const smallest = 16 << 10

// note says how a tensor is drawn.
type note struct {
	options   torch.TensorOptions
	fill      func(t torch.Tensor)
	generator *torch.Generator
	state     []byte // of the generator, before
	version   any    // of the tensor, after
}

// recorder is of a thread that is in Defer.
type recorder struct {
	notes map[torch.Tensor]*note // of tensors that may become parameters
}

var (
	recorders sync.Map // number of a thread to *recorder
	recording atomic.Int64
	waiting   sync.Map // parameter on torch.Meta to *note
)

// Defer runs build, in which [Parameter] leaves for later what [Fill] has filled.
func Defer(build func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if current() != nil {
		build()
		return
	}
	id := thread()
	recorders.Store(id, &recorder{notes: map[torch.Tensor]*note{}})
	recording.Add(1)
	defer func() {
		recording.Add(-1)
		recorders.Delete(id)
	}()
	build()
}

func current() *recorder {
	if recording.Load() == 0 {
		return nil
	}
	if r, ok := recorders.Load(thread()); ok {
		return r.(*recorder)
	}
	return nil
}

// version counts the changes of a tensor in place.
func version(t torch.Tensor) any { return torch.CallAny("aten::_version", t)[0] }

// take notes how a tensor is about to be filled.
func take(o torch.TensorOptions, g *torch.Generator, fill func(t torch.Tensor)) *note {
	if g == nil {
		g = torch.DefaultGenerator(o.Device)
	}
	return &note{options: o, fill: fill, generator: g, state: g.State()}
}

// Fill runs fill(t), which gives every element of t another value, by numbers of g (nil: the default
// generator) or by none. For a parameter that waits to be drawn it draws the numbers only.
func Fill(op string, t torch.Tensor, g *torch.Generator, fill func(t torch.Tensor)) {
	if t.Device() == torch.Meta {
		v, ok := waiting.Load(t)
		if !ok {
			panic(torch.Errorf(op, torch.ErrInvalid, "the tensor has no memory: it is a part or a copy of a parameter "+
				"that nn.Defer leaves for later; change it behind nn.Materialize"))
		}
		n := take(torch.TensorOptions{DType: t.DType(), Device: v.(*note).options.Device}, g, fill)
		n.version = v.(*note).version
		scratch := n.options.Empty(t.Shape()...)
		fill(scratch)
		scratch.Free()
		waiting.Store(t, n)
		return
	}
	r := current()
	if r == nil || t.Numel()*t.DType().Size() < smallest {
		fill(t)
		return
	}
	n := take(torch.TensorOptions{DType: t.DType(), Device: t.Device()}, g, fill)
	fill(t)
	n.version = version(t)
	r.notes[t] = n
}

// Parameter returns t or, in Defer, a tensor on torch.Meta in its place, if nothing but [Fill] has
// changed t. t is freed then.
func Parameter(t torch.Tensor) torch.Tensor {
	r := current()
	if r == nil || r.notes[t] == nil {
		return t
	}
	n := r.notes[t]
	delete(r.notes, t)
	if n.version != version(t) {
		return t
	}
	meta := torch.TensorOptions{DType: t.DType(), Device: torch.Meta}.Empty(t.Shape()...)
	t.Free()
	n.version = version(meta)
	waiting.Store(meta, n)
	return meta
}

// Copy is another parameter that will be drawn with the numbers of t, if t waits to be drawn.
func Copy(t torch.Tensor) (c torch.Tensor, ok bool) {
	v, ok := waiting.Load(t)
	if !ok {
		return c, false
	}
	n := *v.(*note)
	c = torch.TensorOptions{DType: t.DType(), Device: torch.Meta}.Empty(t.Shape()...)
	n.version = version(c)
	waiting.Store(c, &n)
	return c, true
}

// Draw returns what a parameter on torch.Meta would have been, kept, once. It panics if nothing is
// known of it.
func Draw(op, name string, t torch.Tensor) torch.Tensor {
	v, ok := waiting.LoadAndDelete(t)
	if !ok || v.(*note).version != version(t) {
		panic(torch.Errorf(op, torch.ErrInvalid, "parameter %s was left for later by nn.Defer, and then changed by other "+
			"means than nn/initialize; change it behind nn.Materialize", name))
	}
	n := v.(*note)
	whole := n.options.Empty(t.Shape()...).Keep()
	now := n.generator.State()
	n.generator.SetState(n.state)
	defer n.generator.SetState(now)
	torch.NoGrad(func() { torch.Scope(func() { n.fill(whole) }) })
	if drawn := whole; t.DType() != drawn.DType() { // the model was converted meanwhile
		whole = drawn.ToDType(t.DType()).Keep()
		drawn.Free()
	}
	whole.SetRequiresGrad(t.NeedsGrad())
	return whole
}
