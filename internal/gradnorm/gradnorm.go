// Package gradnorm takes the norm of gradients of which each process has a part: what dist/shard and
// dist/tensor have in common.
package gradnorm

import (
	"context"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/torch"
)

// Clip returns the total 2-norm of gradients, a float64 on device that is the same on all processes of
// g: parts count on each of them, whole, which all have alike, once. If maxNorm is positive it then
// scales all of them together so that the norm is at most that: clip_grad_norm_. It waits for no
// device. What is wrong with a tensor panics.
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
