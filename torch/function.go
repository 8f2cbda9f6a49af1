package torch

import "github.com/gotrainer/gotrainer/cgotorch"

// Function is a differentiable operation whose forward and backward passes are Go code:
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
// Forward runs on the goroutine that calls Apply, Backward on the one that calls
// [Tensor.Backward], each in its own [Scope]; the tensors they return outlive it. The graph keeps
// the inputs and outputs for Backward and reports an error if they were changed in place in the
// meantime. Other tensors that the closures capture must live until then.
//
// Results are new tensors: Forward must not change its inputs. With CreateGraph, Backward is
// differentiated itself if it computes from its arguments with differentiable operators. It must
// not call Backward or Grad. A panic in Backward ends the pass and propagates to the caller.
type Function struct {
	// Forward computes the results. Its operations are not recorded.
	Forward func(inputs []Tensor) []Tensor
	// Backward returns a gradient for each input, or the undefined tensor where there is none.
	// gradients has one element for each output; it is zeros if the output was not used.
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
