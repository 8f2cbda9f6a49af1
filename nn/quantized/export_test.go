package quantized

import "github.com/gotrainer/gotrainer/torch"

// ByOperators returns what Float returns on devices without our custom operator.
func (w *Weight) ByOperators(d torch.DType) torch.Tensor {
	return codes[w.state.Type].unpackByOperators(w.packed, w.largest(), w.state.Shape, d)
}

// Numbers returns the weight in a dtype.
func (w *Weight) Numbers(d torch.DType) torch.Tensor { return w.numbers(d) }
