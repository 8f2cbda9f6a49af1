package ddp

import (
	"context"
	"fmt"
	"strings"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Options configures [New]. The zero value is PyTorch's default.
type Options struct {
	KeepBuffers bool // every process keeps buffers of its own (broadcast_buffers=False)
}

// Model is a model that several processes train together.
type Model struct {
	group   *dist.Group
	options Options
	params  []torch.Named // that are trained
	list    *torch.List   // the same
	buffers []torch.Tensor
	synced  bool // the last forward pass was one whose gradients are averaged
}

// New gives all processes the parameters and buffers of rank 0. It fails on all if their models
// differ. Parameters that are frozen now are not averaged later on.
func New(ctx context.Context, g *dist.Group, model any, o Options) (*Model, error) {
	m := &Model{group: g, options: o, synced: true}
	var all []torch.Tensor
	var about strings.Builder
	failed := torch.Try(func() {
		var trained []torch.Tensor
		for _, p := range nn.Params(model) {
			fmt.Fprintf(&about, "parameter %s of %s%v, trained: %v\n", p.Name, p.Tensor.DType(), p.Tensor.Shape(),
				p.Tensor.NeedsGrad())
			all = append(all, p.Tensor)
			if p.Tensor.NeedsGrad() {
				m.params = append(m.params, p)
				trained = append(trained, p.Tensor)
			}
		}
		for _, b := range nn.Buffers(model) {
			fmt.Fprintf(&about, "buffer %s of %s%v\n", b.Name, b.Tensor.DType(), b.Tensor.Shape())
			m.buffers = append(m.buffers, b.Tensor)
		}
		m.list = torch.NewList(trained...)
	})
	if failed != nil {
		return nil, fmt.Errorf("ddp: %w", failed)
	}
	if err := m.compare(ctx, about.String()); err != nil {
		return nil, err
	}
	if err := Broadcast(ctx, g, 0, append(all, m.buffers...)...); err != nil {
		return nil, err
	}
	return m, nil
}

// compare refuses models that are not the same.
func (m *Model) compare(ctx context.Context, about string) error {
	all, err := m.group.AllGather(ctx, []byte(about))
	if err != nil {
		return err
	}
	first := strings.Split(string(all[0]), "\n")
	for rank, text := range all {
		for i, line := range strings.Split(string(text), "\n") {
			if i >= len(first) || i == len(first)-1 && line != "" {
				return fmt.Errorf("ddp: the models differ: rank %d has %s, which rank 0 has not", rank, line)
			}
			if line != first[i] {
				return fmt.Errorf("ddp: the models differ: rank %d has %q where rank 0 has %q", rank, line, first[i])
			}
		}
	}
	return nil
}

// BeforeForward is called before a forward pass of the training. It broadcasts the buffers, if the
// pass before it was one whose gradients were averaged. sync says whether those of the coming one
// will be, as in the last batch of an accumulation window; it is false under no_sync.
func (m *Model) BeforeForward(ctx context.Context, sync bool) error {
	broadcast := m.synced
	m.synced = sync
	if !broadcast || m.options.KeepBuffers || len(m.buffers) == 0 {
		return nil
	}
	return Broadcast(ctx, m.group, 0, m.buffers...)
}

// AverageGradients replaces every gradient by the mean over the processes.
func (m *Model) AverageGradients(ctx context.Context) (err error) {
	world := m.group.World()
	if world == 1 || len(m.params) == 0 {
		return nil
	}
	failed := torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func() { err = m.average(ctx, 1/float64(world)) })
		})
	})
	if failed != nil {
		return fmt.Errorf("ddp: %w", failed)
	}
	return err
}

func (m *Model) average(ctx context.Context, factor float64) error {
	grads := m.list.Grads()
	used := make([]uint8, len(grads))
	for i, g := range grads {
		if g.Defined() {
			used[i] = 1
		}
	}
	if err := dist.AllReduce(ctx, m.group, used, dist.Max); err != nil {
		return err
	}
	var all []torch.Tensor
	for i, g := range grads {
		switch {
		case used[i] == 0:
			continue
		case !g.Defined():
			g = m.params[i].Tensor.ZerosLike()
			m.params[i].Tensor.SetGrad(g)
		}
		all = append(all, g)
	}
	return eachBucket(m.group, all, func(flat torch.Tensor) (torch.Tensor, error) {
		return reduceFlat(ctx, m.group, dist.Sum, flat.MulScalar(factor))
	})
}
