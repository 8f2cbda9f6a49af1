package quantized

import "github.com/gotrainer/gotrainer/torch"

// ByOperators is what Float returns where there is no operator of our own.
func (w *Weight) ByOperators(d torch.DType) torch.Tensor {
	return codes[w.state.Type].unpackByOperators(w.packed, w.largest(), w.state.Shape, d)
}

// Numbers is the weight in a dtype.
func (w *Weight) Numbers(d torch.DType) torch.Tensor { return w.numbers(d) }
