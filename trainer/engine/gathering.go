package engine

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/torch"
)

// gathering is how the processes of a training pass exchange values; nil: there is only one.
type gathering struct {
	ctx   context.Context
	group *dist.Group
	must  func(op string, err error)
}

// check panics if a call among the processes has failed.
func (g *gathering) check(op string, err error) {
	if err != nil {
		g.must(op, fmt.Errorf("engine: %s: %w", op, err))
	}
}

// gathering returns that of a training pass.
func (s *core) gathering(ctx context.Context) *gathering {
	if s.parallel == nil {
		return nil
	}
	return &gathering{ctx, s.group, s.must}
}

// World returns how many processes run this pass together, each with a micro-batch of its own: those
// of the group in training, and 1 in an evaluation, of which each process may have another number of
// batches.
func (p ForwardPass) World() int {
	if p.gathering == nil {
		return 1
	}
	return p.gathering.group.World()
}

// Rank returns the number of this process among those of World.
func (p ForwardPass) Rank() int {
	if p.gathering == nil {
		return 0
	}
	return p.gathering.group.Rank()
}

// Gather returns the tensors of all processes of the pass, one after another along their first
// dimension, in the order of the ranks: Accelerator.gather. The numbers of rows may differ. The
// result has no history. All processes must call it; an error of one of them ends the wait of the
// others.
func (p ForwardPass) Gather(t torch.Tensor) torch.Tensor {
	if p.World() == 1 {
		return t.Detach()
	}
	all, err := ddp.AllGather(p.gathering.ctx, p.gathering.group, t.Detach())
	p.gathering.check("Gather", err)
	return torch.Cat(all, 0)
}

// GatherObject returns the values of all processes of the pass, in the order of the ranks:
// gather_object of accelerate. Package encoding/gob must be able to encode T. All processes must
// call it; an error of one of them ends the wait of the others.
func GatherObject[T any](p ForwardPass, mine T) []T {
	if p.World() == 1 {
		return []T{mine}
	}
	all := make([]T, p.World())
	p.gathering.check("GatherObject", func() error {
		var b bytes.Buffer
		if err := gob.NewEncoder(&b).Encode(mine); err != nil {
			return err
		}
		parts, err := p.gathering.group.AllGather(p.gathering.ctx, b.Bytes())
		for i := range parts {
			if err == nil {
				err = gob.NewDecoder(bytes.NewReader(parts[i])).Decode(&all[i])
			}
		}
		return err
	}())
	return all
}
