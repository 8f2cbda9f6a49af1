package engine

import (
	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// loweredTensor is a tensor of the model during an evaluation in low precision, with the value and
// the gradient it had before.
type loweredTensor struct {
	tensor, value, grad torch.Tensor
}

// lower converts weights and buffers to the precision of [Options].FullEval and keeps their
// previous values.
func (s *core) lower() {
	if s.options.FullEval == amp.FP32 || s.lowered != nil {
		return
	}
	dtype := s.options.FullEval.DType()
	torch.NoGrad(func() {
		torch.Scope(func() {
			model := s.task.Model()
			for _, t := range nn.Numbers(model) {
				a := loweredTensor{tensor: t.Tensor, value: t.Tensor.Detach().Keep(), grad: t.Tensor.Grad()}
				// belongs to a window that continues after the evaluation; its dtype would not
				// match meanwhile
				if a.grad.Defined() {
					a.grad.Keep()
					t.Tensor.SetGrad(torch.Tensor{})
				}
				s.lowered = append(s.lowered, a)
				t.Tensor.SetData_(a.value.ToDType(dtype))
			}
		})
	})
}

// raise restores the values that lower has kept.
func (s *core) raise() {
	if s.lowered == nil {
		return
	}
	torch.NoGrad(func() {
		for _, a := range s.lowered {
			a.tensor.SetData_(a.value)
			a.value.Free()
			if a.grad.Defined() {
				a.tensor.SetGrad(a.grad)
				a.grad.Free()
			}
		}
	})
	s.lowered = nil
}
