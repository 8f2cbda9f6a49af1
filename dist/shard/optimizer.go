package shard

import (
	"context"
	"fmt"
	"strings"

	"github.com/gotrainer/gotrainer/internal/gradnorm"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// Piece is the part of a parameter that this process holds.
type Piece struct {
	Name   string
	Tensor torch.Tensor // has one dimension; may be empty
	Shape  []int64      // shape of the whole parameter
	Offset int64        // position of the first element in it
}

// Pieces returns this process's part of each trainable parameter, the same parameters in the same
// order on all processes. With several processes, most parts are empty.
func (m *Model) Pieces() (pieces []Piece) {
	for _, f := range m.rows {
		for _, p := range f.params {
			offset, _, _ := f.mine(p)
			pieces = append(pieces, Piece{p.name, p.piece, p.shape, offset})
		}
	}
	return pieces
}

// CheckOptimizer refuses an optimizer that [Model.Optimizer] cannot make, for all groups or for one
// of them ([optim.Group].Optimizer).
func CheckOptimizer(b optim.Builder, groups []optim.Group) error {
	for _, g := range groups {
		if g.Optimizer != nil {
			if err := CheckOptimizer(g.Optimizer, nil); err != nil {
				return err
			}
		}
	}
	switch b.(type) {
	case optim.AdamW, optim.Adam, optim.SGD, optim.Adagrad, optim.Adadelta, optim.Adamax, optim.NAdam, optim.RAdam,
		optim.RMSprop, optim.Rprop, optim.ASGD, optim.Lion, optim.AdEMAMix:
	default:
		return fmt.Errorf("shard: %s cannot be sharded; an optimizer must update each element by itself, as AdamW, "+
			"Adam, SGD, Adagrad, Adadelta, Adamax, NAdam, RAdam, RMSprop, Rprop, ASGD, Lion and AdEMAMix do",
			strings.TrimPrefix(fmt.Sprintf("%T", b), "optim."))
	}
	return nil
}

// Optimizer makes an optimizer for this process's parts. groups divide the parameters by name,
// whatever their tensors; nil means one group of all. Groups that depend on shapes must be made
// before the units. Use [Model.Step] to step it and [Model.ZeroGrad] to remove gradients.
//
// It refuses optimizers that need more of a parameter than individual elements (norms, rows,
// blocks, matrices), and those with two kinds of weights or with updates in the backward pass.
func (m *Model) Optimizer(b optim.Builder, groups []optim.Group) (optim.Optimizer, error) {
	if err := CheckOptimizer(b, groups); err != nil {
		return nil, err
	}
	pieces := m.Pieces()
	byName := map[string]torch.Named{}
	all := make([]torch.Named, len(pieces))
	for i, p := range pieces {
		all[i] = torch.Named{Name: p.Name, Tensor: p.Tensor}
		byName[p.Name] = all[i]
	}
	if groups == nil {
		return b.Build([]optim.Group{{Params: all}})
	}
	mine := make([]optim.Group, len(groups))
	for i, g := range groups {
		mine[i] = g
		mine[i].Params = nil
		for _, p := range g.Params {
			piece, ok := byName[p.Name]
			if !ok {
				return nil, fmt.Errorf("shard: parameter %q of group %d is no trained parameter of the model", p.Name, i)
			}
			mine[i].Params = append(mine[i].Params, piece)
		}
	}
	return b.Build(mine)
}

// GradNorm returns the total 2-norm of the averaged gradients, a float64 that is the same on all
// processes.
func (m *Model) GradNorm(ctx context.Context) (norm torch.Tensor, err error) {
	return m.clip(ctx, 0)
}

// ClipGradNorm scales all gradients together so that their total 2-norm is at most maxNorm, and
// returns the norm before scaling, a float64: clip_grad_norm_. Both are the same on all processes.
// It does not wait for a device.
func (m *Model) ClipGradNorm(ctx context.Context, maxNorm float64) (norm torch.Tensor, err error) {
	if !(maxNorm > 0) {
		return norm, fmt.Errorf("shard: ClipGradNorm: the norm is %v; want a positive number", maxNorm)
	}
	return m.clip(ctx, maxNorm)
}

func (m *Model) clip(ctx context.Context, maxNorm float64) (norm torch.Tensor, err error) {
	failed := torch.Try(func() {
		var grads []torch.Tensor
		for _, p := range m.Pieces() {
			if g := p.Tensor.Grad(); g.Defined() && g.Numel() > 0 {
				grads = append(grads, g)
			}
		}
		norm, err = gradnorm.Clip(ctx, m.replica, m.device(), grads, nil, maxNorm)
	})
	if err == nil && failed != nil {
		err = fmt.Errorf("shard: %w", failed)
	}
	return norm, err
}

func (m *Model) device() torch.Device {
	if len(m.rows) == 0 {
		return torch.CPU
	}
	return m.rows[0].device
}

// Step updates this process's parts and, unless units keep them sharded, sends them to the other
// processes, so that all have the whole parameters.
func (m *Model) Step(ctx context.Context, opt optim.Optimizer, lr float64) error {
	m.reshardRoot()
	if err := torch.Try(func() { opt.Step(lr) }); err != nil {
		return err
	}
	return m.Spread(ctx)
}

// Spread does what Step does after the optimizer's own Step. It is for programs that step the
// optimizer themselves, for instance with loss scaling.
func (m *Model) Spread(ctx context.Context) error {
	m.reshardRoot()
	if m.options.Strategy == FullShard || m.replica.World() == 1 {
		return ctx.Err()
	}
	var err error
	failed := torch.Try(func() {
		torch.NoGrad(func() {
			for _, f := range m.rows {
				torch.Scope(func() { err = f.spread(ctx) })
				if err != nil {
					return
				}
			}
		})
	})
	if failed != nil {
		return m.group.Fail("Step", failed)
	}
	return err
}

// spread gathers the whole parameters of a row on all processes after an optimizer step.
func (f *flat) spread(ctx context.Context) error {
	parts := []torch.Tensor{}
	left := f.part
	for _, p := range f.params {
		if n := p.piece.Numel(); n > 0 {
			parts, left = append(parts, p.piece.Detach()), left-n
		}
	}
	if left > 0 {
		parts = append(parts, torch.TensorOptions{DType: f.dtype, Device: f.device}.Zeros(left))
	}
	row, err := f.gather(ctx, torch.Cat(parts, 0))
	if err != nil {
		return err
	}
	for i, t := range f.split(row) {
		f.params[i].whole.Copy_(t.Reshape(f.params[i].shape...))
	}
	return nil
}
