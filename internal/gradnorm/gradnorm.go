// Package gradnorm computes norms of gradients that are sharded over processes, for dist/shard and
// dist/tensor.
package gradnorm

import (
	"context"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/torch"
)

// Clip returns the total 2-norm of gradients, a float64 on device that is the same on all processes
// of g: the parts of all processes count, and whole, which is the same on all of them, counts once.
// If maxNorm is positive, it scales all gradients so that the norm is at most maxNorm, like
// clip_grad_norm_. It does not wait for a device. Invalid tensors panic.
func Clip(ctx context.Context, g *dist.Group, device torch.Device, parts, whole []torch.Tensor,
	maxNorm float64) (norm torch.Tensor, err error) {
	torch.NoGrad(func() {
		norm = torch.Return(func() torch.Tensor {
			square := squares(parts, device)
			if err = ddp.AllReduce(ctx, g, dist.Sum, square); err != nil {
				return square
			}
			if len(whole) > 0 {
				square.Add_(squares(whole, device))
			}
			norm := square.Sqrt()
			if maxNorm > 0 {
				factor := norm.AddScalar(1e-6).Reciprocal().MulScalar(maxNorm)
				factor = torch.Call("aten::clamp_max", factor, 1)[0]
				for _, grads := range [][]torch.Tensor{parts, whole} {
					if len(grads) > 0 {
						torch.Call("aten::_foreach_mul_.Tensor", grads, factor)
					}
				}
			}
			return norm
		})
	})
	return norm, err
}

// squares returns the sum of the squares of all elements, a float64.
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
