package tensor

import (
	"context"
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// GradNorm returns the total 2-norm of the gradients of the whole model, a float64 that is the same
// on all processes, which call it together: parameters of divided layers count by all of their parts,
// the others once.
func (m *Model) GradNorm(ctx context.Context) (norm torch.Tensor, err error) { return m.clip(ctx, 0) }

// ClipGradNorm scales all gradients together so that their total 2-norm is at most maxNorm, and
// returns the norm before, that of [Model.GradNorm]: clip_grad_norm_. It waits for no device. Norms of
// single processes (optim.ClipGradNorm) differ and would make the processes part.
func (m *Model) ClipGradNorm(ctx context.Context, maxNorm float64) (norm torch.Tensor, err error) {
	if !(maxNorm > 0) {
		return norm, fmt.Errorf("tensor: ClipGradNorm: the norm is %v; want a positive number", maxNorm)
	}
	return m.clip(ctx, maxNorm)
}

func (m *Model) clip(ctx context.Context, maxNorm float64) (norm torch.Tensor, err error) {
	failed := try(func() error {
		torch.NoGrad(func() {
			norm = torch.Return(func() (norm torch.Tensor) {
				norm, err = m.clipped(ctx, maxNorm)
				return norm
			})
		})
		return nil
	})
	if err == nil {
		err = failed
	}
	return norm, err
}

func (m *Model) clipped(ctx context.Context, maxNorm float64) (norm torch.Tensor, err error) {
	if m.summoned {
		return norm, errors.New("tensor: the model is summoned, so its layers have no gradients: Release comes first")
	}
	divided := m.divided()
	var grads, parts, whole []torch.Tensor
	for _, p := range nn.Params(m.model) {
		g := p.Tensor.Grad()
		switch {
		case !g.Defined() || g.Numel() == 0:
			continue
		case divided[p.Tensor]:
			parts = append(parts, g)
		default:
			whole = append(whole, g)
		}
		grads = append(grads, g)
	}
	device := torch.CPU
	if len(grads) > 0 {
		device = grads[0].Device()
	}
	square := squares(parts, device)
	if err := ddp.AllReduce(ctx, m.group, dist.Sum, square); err != nil {
		return square, err
	}
	norm = square.Add(squares(whole, device)).Sqrt()
	if maxNorm > 0 && len(grads) > 0 {
		factor := norm.AddScalar(1e-6).Reciprocal().MulScalar(maxNorm)
		torch.Call("aten::_foreach_mul_.Tensor", grads, torch.Call("aten::clamp_max", factor, 1)[0])
	}
	return norm, nil
}

// squares is the sum of the squares of all elements, a float64.
func squares(ts []torch.Tensor, device torch.Device) torch.Tensor {
	sum := torch.TensorOptions{DType: torch.Float64, Device: device}.Zeros([]int64{}...)
	if len(ts) == 0 {
		return sum
	}
	for _, norm := range torch.Call("aten::_foreach_norm.Scalar", ts, 2) {
		sum.Add_(norm.ToDType(torch.Float64).ToDevice(device).Square())
	}
	return sum
}
