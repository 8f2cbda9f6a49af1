package tensor

import (
	"context"
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/internal/gradnorm"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// GradNorm returns the total 2-norm of the gradients of the whole model, a float64 that is the
// same on all processes, which must call it together. All parts of the parameters of divided
// layers count; other parameters count once.
func (m *Model) GradNorm(ctx context.Context) (norm torch.Tensor, err error) { return m.clip(ctx, 0) }

// ClipGradNorm scales all gradients together so that their total 2-norm is at most maxNorm, and
// returns the norm before scaling, that of [Model.GradNorm]: clip_grad_norm_. It does not wait for
// a device. The norms of single processes (optim.ClipGradNorm) differ, and would make the
// processes diverge.
func (m *Model) ClipGradNorm(ctx context.Context, maxNorm float64) (norm torch.Tensor, err error) {
	if !(maxNorm > 0) {
		return norm, fmt.Errorf("tensor: ClipGradNorm: the norm is %v; want a positive number", maxNorm)
	}
	return m.clip(ctx, maxNorm)
}

func (m *Model) clip(ctx context.Context, maxNorm float64) (norm torch.Tensor, err error) {
	if m.summoned {
		return norm, errors.New("tensor: the model is summoned, so its layers have no gradients: Release comes first")
	}
	err = try(func() (err error) {
		divided, device := m.divided(), torch.CPU
		var parts, whole []torch.Tensor
		for _, p := range nn.Params(m.model) {
			g := p.Tensor.Grad()
			if !g.Defined() || g.Numel() == 0 {
				continue
			}
			if len(parts)+len(whole) == 0 {
				device = g.Device()
			}
			if divided[p.Tensor] {
				parts = append(parts, g)
			} else {
				whole = append(whole, g)
			}
		}
		norm, err = gradnorm.Clip(ctx, m.group, device, parts, whole, maxNorm)
		return err
	})
	return norm, err
}
