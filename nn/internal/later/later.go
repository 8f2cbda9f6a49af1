// Package later postpones the initialization of parameters. Package nn creates them on torch.Meta
// and records the state of the generator and the function that was to fill them. Each parameter can
// then be drawn on its own and gets the same numbers that it would have had.
package later

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/gotrainer/gotrainer/torch"
)

// smallest is the size in bytes from which postponing pays: each record holds the state of a
// generator.
const smallest = 16 << 10

// note records how a tensor is drawn.
type note struct {
	options   torch.TensorOptions
	fill      func(t torch.Tensor)
	generator *torch.Generator
	state     []byte // of the generator, before the draw
	version   any    // of the tensor, after the draw
}

// recorder belongs to a thread that is inside Defer.
type recorder struct {
	notes map[torch.Tensor]*note // of tensors that may become parameters
}

var (
	recorders sync.Map // thread id to *recorder
	recording atomic.Int64
	waiting   sync.Map // *note by its parameter on torch.Meta
)

// Defer runs build. While it runs, [Parameter] postpones the initialization of tensors that [Fill]
// has filled.
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

// version returns the number of in-place changes of a tensor.
func version(t torch.Tensor) any { return torch.CallAny("aten::_version", t)[0] }

// take records how a tensor is about to be filled.
func take(o torch.TensorOptions, g *torch.Generator, fill func(t torch.Tensor)) *note {
	if g == nil {
		g = torch.DefaultGenerator(o.Device)
	}
	return &note{options: o, fill: fill, generator: g, state: g.State()}
}

// Fill calls fill(t), which must overwrite every element of t and draw from no generator other than
// g; nil means the default one. For a postponed parameter, it draws and discards the numbers, so
// that the generator advances.
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

// Parameter returns t or, inside Defer, a tensor on torch.Meta in its place if only [Fill] has
// changed t. In that case t is freed.
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

// Copy returns another postponed parameter that will be drawn with the numbers of t, if t is
// postponed.
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

// Draw returns the postponed parameter t with the values that it would have had, outside of any
// scope. It panics if t is not postponed any more or was changed in the meantime.
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
	if drawn := whole; t.DType() != drawn.DType() { // the model has been converted in the meantime
		whole = drawn.ToDType(t.DType()).Keep()
		drawn.Free()
	}
	whole.SetRequiresGrad(t.NeedsGrad())
	return whole
}
