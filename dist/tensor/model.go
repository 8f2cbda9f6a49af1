package tensor

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is a model with divided layers. It is not safe for concurrent use.
type Model struct {
	ctx      context.Context // of the passes
	group    *dist.Group
	model    any
	layers   []*layer
	heads    []attention
	summoned bool
}

// attention is a module whose heads are divided.
type attention struct {
	name string
	Heads
}

// Parallelize divides the layers of a plan over the processes of g: parallelize_module of PyTorch.
// All processes must call it. They start with the parameters and buffers of rank 0, and with a
// part of those of divided layers. It fails on all processes if models or plans differ, or if
// numbers of features or heads cannot be divided by the number of processes.
//
// ctx also ends the sums in later passes, so use the context of the whole run. Make optimizers
// afterwards, because the parameters of divided layers are then different tensors. If the model
// was made in [nn.Defer], this process never holds more than one whole divided layer at a time.
func Parallelize(ctx context.Context, g *dist.Group, model any, plan Plan) (*Model, error) {
	m := &Model{ctx: ctx, group: g, model: model}
	about := ""
	err := try(func() (err error) {
		about, err = m.arrange(plan)
		return err
	})
	if err != nil {
		return nil, err
	}
	if g.World() == 1 {
		m.layers, m.heads = nil, nil
		return m, nn.Materialize(model)
	}
	if err := ddp.SameModel(ctx, g, about); err != nil {
		return nil, err
	}
	for _, l := range m.layers {
		if err := m.cut(l); err != nil {
			return nil, err
		}
	}
	if err := m.replicate(); err != nil {
		return nil, err
	}
	if err := try(m.divide); err != nil {
		return nil, err
	}
	return m, nil
}

// try runs f, and returns panics of its tensor operations as errors.
func try(f func() error) error {
	var err error
	if failed := torch.Try(func() { err = f() }); failed != nil {
		err = fmt.Errorf("tensor: %w", failed)
	}
	return err
}

// arrange finds the layers to divide, and returns a description of the model.
func (m *Model) arrange(plan Plan) (about string, err error) {
	if m.layers, err = plan.layers(m.model); err != nil {
		return "", err
	}
	if err := check(m.layers, m.model, m.group.World()); err != nil {
		return "", err
	}
	var text strings.Builder
	for _, p := range nn.Params(m.model) {
		fmt.Fprintf(&text, "parameter %s of %s%v, trained: %v\n", p.Name, p.Tensor.DType(), p.Tensor.Shape(),
			p.Tensor.NeedsGrad())
	}
	for _, b := range nn.Buffers(m.model) {
		fmt.Fprintf(&text, "buffer %s of %s%v\n", b.Name, b.Tensor.DType(), b.Tensor.Shape())
	}
	for _, l := range m.layers {
		fmt.Fprintf(&text, "%s layer %s\n", l.style, l.name)
		m.plan(l)
	}
	return text.String(), m.planHeads()
}

// plan determines the pieces of a layer.
func (m *Model) plan(l *layer) {
	l.part = &nn.LinearPart{}
	features := "output"
	weight := &piece{name: l.name + ".weight", field: &l.linear.Weight}
	l.pieces = []*piece{weight}
	if l.style == Colwise {
		l.part.Input = func(x torch.Tensor) torch.Tensor { return m.enter(l.name, x) }
		if l.linear.Bias.Defined() {
			l.pieces = append(l.pieces, &piece{name: l.name + ".bias", field: &l.linear.Bias})
		}
	} else {
		features, weight.dim = "input", 1
		l.part.Output = func(y torch.Tensor) torch.Tensor { return m.sum("the outputs of "+l.name, y) }
	}
	l.part.Name = fmt.Sprintf("part %d of %d of the %s features", m.group.Rank(), m.group.World(), features)
}

// planHeads finds the attention modules whose heads are divided, and checks that they can be.
func (m *Model) planHeads() error {
	planned := map[*nn.Linear]*layer{}
	for _, l := range m.layers {
		planned[l.linear] = l
	}
	for _, n := range nn.Modules(m.model) {
		h, ok := n.Module.(Heads)
		if !ok {
			continue
		}
		name := cmp.Or(n.Name, "the model")
		divided, whole := "", ""
		for _, c := range nn.Children(n.Module) {
			linear, ok := c.Module.(*nn.Linear)
			switch {
			case !ok:
			case planned[linear] == nil:
				whole = c.Name
			default:
				divided = c.Name
				if planned[linear].style == Colwise {
					planned[linear].part.Input = nil // shared by q, k and v: the attention module applies it once
				}
			}
		}
		switch {
		case divided == "":
			continue
		case whole != "":
			return fmt.Errorf("tensor: the plan divides %s of %s, but not %s; heads are divided in all of its layers",
				divided, name, whole)
		}
		if err := h.DivideHeads(int64(m.group.World()), nil); err != nil {
			return fmt.Errorf("tensor: %s: %w", name, err)
		}
		if err := h.DivideHeads(1, nil); err != nil { // not before the weights are divided
			return fmt.Errorf("tensor: %s: %w", name, err)
		}
		m.heads = append(m.heads, attention{name, h})
	}
	return nil
}

// cut reduces a layer to the part of this process.
func (m *Model) cut(l *layer) error {
	if err := nn.Materialize(l.linear); err != nil {
		return fmt.Errorf("tensor: %s: %w", l.name, err)
	}
	var whole []torch.Tensor
	for _, p := range l.pieces {
		whole = append(whole, *p.field)
	}
	if err := ddp.Broadcast(m.ctx, m.group, 0, whole...); err != nil {
		return err
	}
	return try(func() error {
		for _, p := range l.pieces {
			torch.NoGrad(func() {
				torch.Scope(func() { p.here = p.of(*p.field, m.group).Clone().Keep() })
			})
			p.here.SetRequiresGrad(p.field.NeedsGrad())
			p.field.Free()
			*p.field = p.here
		}
		return nil
	})
}

// replicate broadcasts the parameters and buffers that are not divided from rank 0.
func (m *Model) replicate() error {
	if err := nn.Materialize(m.model); err != nil {
		return fmt.Errorf("tensor: %w", err)
	}
	divided := m.divided()
	var whole []torch.Tensor
	for _, t := range append(nn.Params(m.model), nn.Buffers(m.model)...) {
		if !divided[t.Tensor] {
			whole = append(whole, t.Tensor)
		}
	}
	return ddp.Broadcast(m.ctx, m.group, 0, whole...)
}

// divided returns the parameters of which this process has only a part.
func (m *Model) divided() map[torch.Tensor]bool {
	is := map[torch.Tensor]bool{}
	for _, l := range m.layers {
		for _, p := range l.pieces {
			is[p.here] = true
		}
	}
	return is
}

// divide makes layers and attention modules compute with parts.
func (m *Model) divide() error {
	for _, l := range m.layers {
		l.linear.SetPart(l.part)
	}
	for _, h := range m.heads {
		enter := func(x torch.Tensor) torch.Tensor { return m.enter(h.name, x) }
		if err := h.DivideHeads(int64(m.group.World()), enter); err != nil {
			return err
		}
	}
	return nil
}

// undivide reverses divide.
func (m *Model) undivide() error {
	for _, l := range m.layers {
		l.linear.SetPart(nil)
	}
	for _, h := range m.heads {
		if err := h.DivideHeads(1, nil); err != nil {
			return err
		}
	}
	return nil
}
