package tensor

import (
	"fmt"

	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/torch"
)

// enter applies Megatron-LM's f to the input of a divided layer: x itself in the forward pass, the
// sum of the gradients over the processes in the backward pass.
func (m *Model) enter(layer string, x torch.Tensor) torch.Tensor {
	return torch.Function{
		Forward: func(in []torch.Tensor) []torch.Tensor { return []torch.Tensor{in[0].View(in[0].Shape()...)} },
		Backward: func(_, _, grads []torch.Tensor) []torch.Tensor {
			if torch.IsGradEnabled() {
				panic(torch.Errorf("tensor.Model", torch.ErrNotSupported, "the backward pass through %s cannot be "+
					"differentiated itself (CreateGraph); divided layers have first derivatives only", layer))
			}
			return []torch.Tensor{m.sum("the gradients of the input of "+layer, grads[0].Clone())}
		},
	}.Apply(x)[0]
}

// sum is Megatron-LM's g: it sums y over the processes, in place, in the forward pass, and passes
// the gradient through unchanged in the backward pass.
func (m *Model) sum(what string, y torch.Tensor) torch.Tensor {
	if y.Numel() == 0 {
		return y
	}
	y = y.Contiguous()
	call := fmt.Sprintf("adding up %s, %s%v", what, y.DType(), y.Shape())
	err := m.group.Err()
	if err != nil {
		err = m.group.Fail(call, err) // the first reason that any process had, as an error of this call
	} else {
		err = ddp.Collective(m.ctx, m.group, call, func(p *torch.ProcessGroup) {
			work := torch.Call("_c10d_functional::all_reduce_", y.Detach(), "sum", p.Name())[0]
			torch.Call("_c10d_functional::wait_tensor", work)
		})
	}
	if err != nil {
		panic(torch.Errorf("tensor.Model", torch.ErrInternal, "%v", err))
	}
	return y
}
