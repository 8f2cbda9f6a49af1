package tensor

import (
	"context"
	"fmt"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/torch"
)

// piece is the part of a parameter that this process holds.
type piece struct {
	name  string
	field *torch.Tensor
	dim   int64 // dimension along which the parameter is divided
	here  torch.Tensor
}

// of returns this process's piece of the whole parameter.
func (p *piece) of(whole torch.Tensor, g *dist.Group) torch.Tensor {
	size := whole.Size(p.dim) / int64(g.World())
	return whole.Detach().Narrow(p.dim, int64(g.Rank())*size, size)
}

// whole gathers the whole parameter.
func (p *piece) whole(ctx context.Context, g *dist.Group) (whole torch.Tensor, err error) {
	mine := p.here.Detach()
	if p.dim == 1 {
		mine = mine.T().Contiguous() // tensors are gathered along the first dimension
	}
	call := fmt.Sprintf("gathering %s, %s%v", p.name, mine.DType(), mine.Shape())
	err = ddp.Collective(ctx, g, call, func(group *torch.ProcessGroup) {
		whole = group.AllGather(mine)
		if p.dim == 1 {
			whole = whole.T().Contiguous()
		}
		whole.Keep()
	})
	if err == nil {
		whole.SetRequiresGrad(p.here.NeedsGrad())
	}
	return whole, err
}

// Summon gives every process the whole layers, until [Model.Release], to save the model, to load a
// file into it, or to evaluate without the other processes. All processes must call it.
//
//	err := m.Summon(ctx)
//	if g.Main() {
//		err = nn.Save("model.safetensors", model, nil) // the file of the undivided model
//	}
//	err = m.Release()
func (m *Model) Summon(ctx context.Context) error {
	if m.summoned || len(m.layers) == 0 {
		return ctx.Err()
	}
	return try(func() error {
		var all []torch.Tensor
		for _, l := range m.layers {
			for _, p := range l.pieces {
				var err error
				torch.Scope(func() {
					var t torch.Tensor
					if t, err = p.whole(ctx, m.group); err == nil {
						all = append(all, t)
					}
				})
				if err != nil {
					for _, t := range all {
						t.Free()
					}
					return err
				}
			}
		}
		for _, l := range m.layers {
			for _, p := range l.pieces {
				*p.field, all = all[0], all[1:]
			}
		}
		m.summoned = true
		return m.undivide()
	})
}

// Release reverses [Model.Summon]. Changes that the program made to the parameters in the
// meantime, the same on all processes, are kept.
func (m *Model) Release() error {
	if !m.summoned {
		return nil
	}
	return try(func() error {
		torch.NoGrad(func() {
			torch.Scope(func() {
				for _, l := range m.layers {
					for _, p := range l.pieces {
						p.here.Detach().Copy_(p.of(*p.field, m.group))
						p.field.Free()
						*p.field = p.here
					}
				}
			})
		})
		m.summoned = false
		return m.divide()
	})
}
