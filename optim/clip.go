package optim

import "github.com/gotrainer/gotrainer/torch"

// ClipGradNorm scales all gradients together so that their total 2-norm is at most maxNorm, and
// returns the norm before scaling: torch.nn.utils.clip_grad_norm_. Parameters without a gradient
// are skipped. The order of params affects the last bits of the norm; PyTorch's order is that of
// the model. All gradients must be on one device. It does not wait for the device, but reading the
// norm with Item does.
//
// Loops that clip at each step save a little time by making the list once: torch.NewList and
// [torch.List.ClipGradNorm], which also supports other norms.
func ClipGradNorm(params []torch.Named, maxNorm float64) torch.Tensor {
	return tensorsOf(params).ClipGradNorm(maxNorm, 2)
}

// ClipGradValue limits every element of the gradients to [-value, value]:
// torch.nn.utils.clip_grad_value_.
func ClipGradValue(params []torch.Named, value float64) { tensorsOf(params).ClipGradValue(value) }

func tensorsOf(params []torch.Named) *torch.List {
	ts := make([]torch.Tensor, len(params))
	for i, p := range params {
		ts[i] = p.Tensor
	}
	return torch.NewList(ts...)
}
