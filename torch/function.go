package torch

import "github.com/gotrainer/gotrainer/cgotorch"

// Function is a differentiable operation whose forward and backward are Go code:
// torch.autograd.Function.
//
//	square := torch.Function{
//		Forward:  func(in []torch.Tensor) []torch.Tensor { return []torch.Tensor{in[0].Square()} },
//		Backward: func(in, _, grads []torch.Tensor) []torch.Tensor {
//			return []torch.Tensor{grads[0].Mul(in[0]).MulScalar(2)}
//		},
//	}
//	y := square.Apply(x)[0]
//
// Both run on the goroutine that calls Apply and [Tensor.Backward], each in a [Scope] of its own:
// what they return survives it. The graph keeps the inputs and outputs for Backward and complains
// if they were changed in place meanwhile; other tensors that the closures capture must live until
// then. A result is a new tensor: Forward must not change its inputs. Backward may be
// differentiated itself, with CreateGraph, if it computes from its arguments by differentiable
// operators; it must not call Backward or Grad. A panic in it ends the pass and propagates to the
// caller.
type Function struct {
	// Forward computes the results; what it does is not recorded.
	Forward func(inputs []Tensor) []Tensor
	// Backward returns a gradient for each input, the undefined tensor where there is none to give.
	// gradients has one for each output, zeros where the output was not used.
	Backward func(inputs, outputs, gradients []Tensor) []Tensor
}

// Apply runs the operation and makes it part of the history of its results. An input may be
// undefined.
func (f Function) Apply(inputs ...Tensor) []Tensor {
	const op = "Function.Apply"
	if f.Forward == nil || f.Backward == nil {
		panic(invalid(op, "Forward and Backward must both be set"))
	}
	load(op)
	return inOwnScope(func() []cgotorch.Tensor {
		var outputs []Tensor
		NoGrad(func() { outputs = f.Forward(inputs) })
		if !IsGradEnabled() || !anyNeedsGrad(inputs) {
			return retained(op, outputs)
		}
		return newNode(op, cgotorch.FunctionNode, f.backward, inputs, outputs)
	})
}

func (f Function) backward(inputs, outputs, gradients []Tensor, gradMode bool) (results []Tensor) {
	mode := NoGrad
	if gradMode {
		mode = EnableGrad
	}
	mode(func() { results = f.Backward(inputs, outputs, gradients) })
	return results
}

func anyNeedsGrad(ts []Tensor) bool {
	for _, t := range ts {
		if t.Defined() && t.NeedsGrad() {
			return true
		}
	}
	return false
}
